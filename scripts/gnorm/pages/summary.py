"""What came out of a run: the headline tables, and where everything is."""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path

from gnorm import layout

TABLES = {
    "headline": "Area under the accuracy curve, run 0 ± deviation over runs (random: mean ± deviation over trials):",
    "baselines": "Models trained here, beside what needs no model:",
    "solutions": "The solution at the stop point:",
}
# What lies where, and the files by which it is told to be there.
PLACES = (
    ("datasets", layout.SUMMARY, layout.SUMMARY),
    ("models", layout.CHECKPOINT, layout.CHECKPOINT),
    ("figures", layout.FIGURES, layout.FIGURE),
    ("tables", layout.fill(layout.TABLE, kind="md"), layout.fill(layout.TABLE, kind="md")),
    ("workbook", layout.WORKBOOK, layout.WORKBOOK),
    ("all rows", layout.TIDY, layout.TIDY),
    ("pruned", layout.PRUNED, layout.PRUNED),
    ("verdict", layout.fill(layout.VERDICT, kind="md"), layout.fill(layout.VERDICT, kind="md")),
    ("report", layout.REPORT, layout.REPORT),
)


def lines(suites: Collection[str], made: Collection[str] | None = None) -> list[str]:
    """Say what is there of these suites; with `made`, of these files alone."""
    told = []
    for suite in suites:
        for table, title in TABLES.items():
            path = layout.fill(layout.TABLE, suite=suite, table=table, kind="md")
            if (made is None or path in made) and Path(path).exists():
                told += [title, "", Path(path).read_text(encoding="utf-8")]
        for name, place, of in PLACES:
            shown, files = (re.sub(r"{\w+}", "*", layout.fill(path, suite=suite)) for path in (place, of))
            if any(Path().glob(files)) if made is None else any(fnmatchcase(path, files) for path in made):
                told.append(f"{name:9} {shown}")
    return told
