"""Print where a finished suite's results are, and its headline tables: python scripts/show_results.py SUITE"""

import sys
from pathlib import Path

from gnorm import layout

TABLES = {
    "headline": "Area under the accuracy curve, run 0 ± deviation over runs (random: mean ± deviation over trials):",
    "baselines": "Models trained here, beside what needs no model:",
    "solutions": "The solution at the stop point:",
}


def main(suite: str) -> None:
    for table, title in TABLES.items():
        path = Path(layout.fill(layout.TABLE, suite=suite, table=table, kind="md"))
        if path.exists() or table != "baselines":  # which only models that are trained here have
            print(f"\n{title}\n\n{path.read_text(encoding='utf-8')}", end="")
    print()
    for name, template in (
        ("figures", layout.FIGURES),
        ("tables", layout.fill(layout.TABLE, table="*", kind="md")),
        ("workbook", layout.WORKBOOK),
        ("all rows", layout.TIDY),
        ("pruned", layout.fill(layout.PRUNED, model="*")),
        ("verdict", layout.fill(layout.VERDICT, kind="md")),
        ("report", layout.REPORT),
    ):
        print(f"{name:9} {layout.fill(template, suite=suite)}")


if __name__ == "__main__":
    main(sys.argv[1])
