"""Print where a finished suite's results are, and the headline table."""

import sys
from pathlib import Path


def main(results: Path, figures: Path) -> None:
    print("\nArea under the accuracy curve, run 0 ± deviation over runs (random: mean ± deviation over trials):\n")
    print((results / "tables/headline.md").read_text())
    if (results / "tables/baselines.md").exists():
        print("Models trained here, beside what needs no model:\n")
        print((results / "tables/baselines.md").read_text())
    print("The solution at the stop point:\n")
    print((results / "tables/solutions.md").read_text())
    for name, path in (
        ("figures", figures),
        ("tables", results / "tables"),
        ("workbook", results / "all.xlsx"),
        ("all rows", results / "tidy.csv"),
        ("pruned", results / "solutions/*/checkpoint"),
        ("verdict", results / "verdict.md"),
        ("report", results / "report.html"),
    ):
        print(f"{name:9} {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
