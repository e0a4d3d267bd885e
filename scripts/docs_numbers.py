"""Take the numbers that README and docs show from the finished runs that are here: python scripts/docs_numbers.py"""

from pathlib import Path

from gnorm.pages import kept


def main(root: Path) -> None:
    print("\n".join(kept.collect(root)))
    print("changed:", ", ".join(kept.fill(root)) or "nothing")


if __name__ == "__main__":
    main(Path(__file__).parents[1])
