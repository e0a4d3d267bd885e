"""Tables and numbers of README and docs that come from a run, written from result files that are kept in docs/data.

A page marks where they stand, by the suite (or `bench`) and the name of a table below:

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
from gnorm.pages.bench import number
from gnorm.shown import in_markdown, markdown_table
from gnorm.statistics.columns import read_csv

DATA = "docs/data"
NOT_YET = ", not collected yet"
# Result files that are no tables of a suite.
FILES = {
    "verdict": layout.fill(layout.VERDICT, kind="csv"),
    "bench": layout.fill(layout.BENCH_TABLE, kind="csv"),
    "page": layout.fill(layout.BENCH_TABLE, kind="md"),
}
FIGURES = {
    "mini": ("PruningResults", "docs/pruning-results.png"),
    "minilm": ("PruningResults", "docs/minilm-results.png"),
    layout.BENCH: ("Benchmark", "docs/benchmark.png"),
}
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


def _ahead(headline: pd.DataFrame) -> str:
    """Say by name where the areas of other strategies, as printed, are above those of the first one."""
    areas = headline.set_index("strategy").map(lambda cell: float(str(cell).split(" ")[0]))
    first, *others = areas.index
    where = {
        name: [in_markdown(model) for model in areas if areas[model][name] > areas[model][first]] for name in others
    }
    return "\n".join(
        f"- `{name}` is ahead of `{first}` on "
        + (f"{len(models)} of {len(areas.columns)}: " if models else "none")
        + ", ".join(models)
        for name, models in where.items()
    )


def _criteria(criteria: pd.DataFrame) -> str:
    areas = criteria.assign(area=[f"{value:.3f}" for value in criteria["area"]])
    table = areas.pivot_table(index="criterion", columns="model", values="area", aggfunc="first", sort=False)
    return markdown_table(table.fillna("").reset_index())


def _claims(verdict: pd.DataFrame) -> str:
    """What a run says of the claims of the paper that it can decide."""
    asked = verdict[(verdict["part"] == "Claims") & ~verdict["status"].isin(["not run", "not published"])]
    table = asked.pivot_table(index="item", columns="model", values="this run", aggfunc="first", sort=False)
    return markdown_table(table.fillna("").reset_index().rename(columns={"item": "claim"}))


def _page(text: str) -> str:
    return text.partition("\n")[2].strip()


class Bench:
    """The benchmark's table, asked for single lines; what was not measured is left blank."""

    def __init__(self, table: pd.DataFrame):
        self.table = table

    def lines(self, section: str, what: str) -> list:
        """Lines of a section whose text begins so."""
        of_section = self.table[self.table["section"] == section]
        return [line for line in of_section.itertuples() if line.what.startswith(what)]

    def cell(self, section: str, what: str, shape: str, unit: str = "") -> str:
        line = next((line for line in self.lines(section, what) if line.shape == shape), None)
        return "" if line is None else f"{number(line.value)}{unit or ' ' + line.unit}{spread(line) if unit else ''}"

    def rows(self, columns: dict[str, tuple[str, str, str]]) -> str:
        """Make a table with a line for each shape; a column has a section, the begin of a line there, and `x` or ""."""
        sections = {section for section, _, _ in columns.values()}
        shapes = self.table[self.table["section"].isin(sections)]["shape"].unique()
        cells = {
            name: [self.cell(section, what, shape, unit) for shape in shapes]
            for name, (section, what, unit) in columns.items()
        }
        kept = [any(made) for made in zip(*cells.values(), strict=True)]
        table = pd.DataFrame({"shape": shapes, **cells})[kept]
        return markdown_table(table, ["left"] + ["right"] * len(columns))


def spread(line) -> str:
    return f" ({number(line.low)}-{number(line.high)})"


def _speed(bench: pd.DataFrame) -> str:
    columns = {
        "notebooks": ("greedy step", "notebooks", ""),
        "loop over sentences": ("greedy step", "sentences", ""),
        "here": ("greedy step", "engine", ""),
        "notebooks / here": ("greedy step", "notebooks / engine", "x"),
        "here / floor": ("full batches", "engine / floor", "x"),
        "accuracy: one at a time / here": ("accuracy", "one at a time / here", "x"),
        "entropy: same": ("entropy", "one at a time / here", "x"),
    }
    return Bench(bench).rows(columns)


def _memory(bench: pd.DataFrame) -> str:
    peak = Bench(bench).lines("memory", "peak of a step")[0].what  # with the size of batches
    return Bench(bench).rows({"model": ("memory", "the model itself", ""), peak: ("memory", peak, "")})


def _hours(bench: pd.DataFrame) -> str:
    columns = {
        "here": "greedy run here",
        "notebooks' procedure on the same cores": "notebooks' procedure",
        "printed by the authors": "printed",
    }
    section = "the paper's runs"
    return Bench(bench).rows({name: (section, what, "") for name, what in columns.items()})


def _found(bench: pd.DataFrame) -> str:
    """What else the benchmark found, in sentences."""
    asked = Bench(bench)
    reached = bench["reached"].dropna().astype(str)
    faster = [
        f"{number(one.value)}x{spread(one)} faster on {in_markdown(one.shape)}"
        for one in asked.lines("trajectory", "without / with")
    ]
    peaks = [
        f"{number(one.value)} MB for {one.what.split(', ')[1]}"
        for one in asked.lines("entropy", "peak memory, ")
        if one.unit == "MB"
    ]
    exact = max(one.value for one in asked.lines("exactness", "float64, here"))
    errors = [one.value for one in asked.lines("exactness", "float32 error, here / naive")]
    return "\n".join(
        [
            f"- {(reached == 'True').sum()} of {len(reached)} targets are reached.",
            f"- Reusing the layers below a pruned head makes the evaluations of a trajectory {', '.join(faster)}.",
            f"- Entropy takes {', '.join(peaks)}.",
            f"- Against the naive loop in float64, scores are off by at most {number(exact)} in float64; in float32, "
            "on the trained models of the suite, whole and with half of their heads pruned, by "
            f"{number(min(errors))} to {number(max(errors))} times what the naive loop in float32 is off by.",
        ]
    )


# What a mark may name: the result files it is made of, and how.
TABLES: dict[str, tuple[tuple[str, ...], Callable[..., str]]] = {
    "headline": (("headline",), _headline),
    "ahead": (("headline",), _ahead),
    "areas": (("areas",), _areas),
    "before": (("baselines", "solutions"), _before),
    "claims": (("verdict",), _claims),
    "criteria": (("criteria",), _criteria),
    "page": (("page",), _page),
    "speed": (("bench",), _speed),
    "memory": (("bench",), _memory),
    "hours": (("bench",), _hours),
    "found": (("bench",), _found),
}


def pages(root: Path) -> list[Path]:
    return [root / "README.md", *sorted(root.glob("docs/*.md"))]


def _made(root: Path, suite: str, file: str) -> Path:
    """Where a finished run has a result file."""
    template = FILES.get(file, layout.fill(layout.TABLE, table=file, kind="csv"))
    return root / layout.fill(template, suite=suite)


def _kept(root: Path, suite: str, name: str) -> list[Path]:
    return [root / DATA / suite / f"{file}{_made(root, suite, file).suffix}" for file in TABLES[name][0]]


def _content(path: Path) -> pd.DataFrame | str:
    return read_csv(path) if path.suffix == ".csv" else path.read_text(encoding="utf-8")


def filled(text: str, root: Path) -> str:
    """The text of a page, with every table as the files in docs/data have it."""

    def table(mark: re.Match) -> str:
        suite, name = mark["suite"], mark["name"]
        files = _kept(root, suite, name)
        if not all(path.exists() for path in files):
            return f"<!-- from: {suite}/{name}{NOT_YET} -->\n{mark['old']}<!-- end -->"
        made = TABLES[name][1](*map(_content, files))
        return f"<!-- from: {suite}/{name} -->\n{made}\n<!-- end -->"

    return MARKED.sub(table, text)


def collect(root: Path) -> list[str]:
    """Copy what the pages need from finished runs into docs, and say of each suite what was done."""
    found = [mark for page in pages(root) for mark in MARKED.finditer(page.read_text(encoding="utf-8"))]
    told = []
    for suite in dict.fromkeys(mark["suite"] for mark in found):
        kept = [path for mark in found if mark["suite"] == suite for path in _kept(root, suite, mark["name"])]
        made = {path: _made(root, suite, path.stem) for path in kept}
        if lacking := [path for path in made.values() if not path.exists()]:
            told.append(f"{suite}: no finished run is here ({lacking[0].relative_to(root)}); its numbers stay")
            continue
        for path, source in made.items():
            write_text(path, source.read_text(encoding="utf-8"))
        told.append(f"{suite}: collected {', '.join(path.stem for path in made)}")
        name, shown = FIGURES.get(suite, ("", ""))
        figure = root / layout.fill(layout.FIGURE, suite=suite, figure=name, kind="png")
        if shown and figure.exists():
            with atomic(root / shown) as temporary:
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
