"""Tables of README and docs that come from a suite, written from result files that are kept in docs/data.

A page marks where such a table stands, by the suite and the name of a table below:

    <!-- from: mini/headline -->
    | strategy | ...
    <!-- end -->

`collect` takes the files from a finished run and `filled` writes the tables; both are `make docs-numbers`. As long as
no run has been collected, the mark says so, and what stands there is left alone.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from gnorm import layout
from gnorm.files import atomic, write_text
from gnorm.shown import in_markdown, markdown_table
from gnorm.statistics.columns import read_csv

DATA = "docs/data"
NOT_YET = ", not collected yet"
FIGURES = {"mini": "docs/pruning-results.png", "minilm": "docs/minilm-results.png"}
MARKED = re.compile(rf"(?ms)^<!-- from: (?P<suite>[\w-]+)/(?P<name>\w+)(?:{NOT_YET})? -->\n(?P<old>.*?)^<!-- end -->$")


def _headline(headline: pd.DataFrame) -> str:
    return markdown_table(headline)


def _areas(areas: pd.DataFrame) -> str:
    lines = ["| task | strategy | area | 25% pruned | 50% pruned | 75% pruned |", "|---|---|---:|---:|---:|---:|"]
    for model, rows in areas.groupby("model", sort=False):
        for _, row in rows.iterrows():
            area = f"{row['area']:.3f} ± {row['area ±']:.3f}"
            cells = [f"**{area}**" if row["area"] == rows["area"].max() else area]
            cells += [f"{100 * row[f'at {n}%']:.1f} ± {100 * row[f'at {n}% ±']:.1f}%" for n in (25, 50, 75)]
            lines.append(f"| {in_markdown(model)} | `{row['strategy']}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _before(baselines: pd.DataFrame, solutions: pd.DataFrame) -> str:
    columns = (
        "task, majority class, bag of words, fine-tuned model, heads pruned at the stop point, accuracy there, size"
    )
    lines = [f"| {columns.replace(', ', ' | ')} |", "|---|---:|---:|---:|---:|---:|---:|"]
    for _, row in baselines.merge(solutions, on="model", validate="1:1").iterrows():
        percent = (row["majority class (%)"], row["bag of words (%)"], row["model (%)"])
        cells = [f"{value:.1f}%" for value in percent]
        cells += [f"{row['pruned']} of {row['heads']}", f"{row['accuracy after (%)']:.1f}%"]
        cells += [f"{row['size before (MB)']:.1f} -> {row['size after (MB)']:.1f} MB"]
        lines.append(f"| {in_markdown(row['model'])} | {' | '.join(cells)} |")
    return "\n".join(lines)


# What a mark may name: the result tables it is made of, and how.
TABLES: dict[str, tuple[tuple[str, ...], Callable[..., str]]] = {
    "headline": (("headline",), _headline),
    "areas": (("areas",), _areas),
    "before": (("baselines", "solutions"), _before),
}


def pages(root: Path) -> list[Path]:
    return [root / "README.md", *sorted(root.glob("docs/*.md"))]


def _kept(root: Path, suite: str, name: str) -> list[Path]:
    return [root / DATA / suite / f"{table}.csv" for table in TABLES[name][0]]


def filled(text: str, root: Path) -> str:
    """The text of a page, with every table as the files in docs/data have it."""

    def table(mark: re.Match) -> str:
        suite, name = mark["suite"], mark["name"]
        files = _kept(root, suite, name)
        if not all(path.exists() for path in files):
            return f"<!-- from: {suite}/{name}{NOT_YET} -->\n{mark['old']}<!-- end -->"
        made = TABLES[name][1](*map(read_csv, files))
        return f"<!-- from: {suite}/{name} -->\n{made}\n<!-- end -->"

    return MARKED.sub(table, text)


def collect(root: Path) -> list[str]:
    """Copy what the pages need from finished runs into docs, and say of each suite what was done."""
    found = [mark for page in pages(root) for mark in MARKED.finditer(page.read_text(encoding="utf-8"))]
    told = []
    for suite in dict.fromkeys(mark["suite"] for mark in found):
        kept = [path for mark in found if mark["suite"] == suite for path in _kept(root, suite, mark["name"])]
        results = root / layout.fill(layout.RESULTS, suite=suite)
        made = {path: layout.within(results, layout.TABLE, suite=suite, table=path.stem, kind="csv") for path in kept}
        if lacking := [path for path in made.values() if not path.exists()]:
            told.append(f"{suite}: no finished run is here ({lacking[0].relative_to(root)}); its numbers stay")
            continue
        for path, source in made.items():
            write_text(path, source.read_text(encoding="utf-8"))
        told.append(f"{suite}: collected {', '.join(path.stem for path in made)}")
        figure = root / layout.fill(layout.FIGURE, suite=suite, figure="PruningResults", kind="png")
        if suite in FIGURES and figure.exists():
            with atomic(root / FIGURES[suite]) as temporary:
                shutil.copyfile(figure, temporary)
    return told


def fill(root: Path) -> list[str]:
    """Write the tables of all pages; gives the names of those that changed."""
    changed = []
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        if (new := filled(text, root)) != text:
            write_text(page, new)
            changed.append(page.relative_to(root).as_posix())
    return changed
