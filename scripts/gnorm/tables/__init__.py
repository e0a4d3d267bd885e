"""Tables: one module each, found by its file name.

A module has a docstring (its caption in the report), `NEEDS` (the results it reads, by the names in
`gnorm.layout.NEEDS`) and `make(results, settings)`, which returns a data frame. It may also have `DECIMALS`, the
decimals of columns that are not rounded to 3 for reading (the CSV keeps every digit), `OUTCOMES`, the kinds of outcomes
row by row that it reads (`gnorm.statistics.estimates.OfRows`), and `SHOWN`, `OPTIONAL`, `UNIT` and `PUBLISHED`, as in
`gnorm.figures`.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection
from pathlib import Path
from types import ModuleType

import pandas as pd

from gnorm.files import write_text
from gnorm.shown import in_html, in_latex, markdown_table, marked_up
from gnorm.statistics.columns import write_csv


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


def rounded(table: pd.DataFrame, decimals: dict[str, int]) -> pd.DataFrame:
    """Write every cell as text: numbers with their column's decimals, missing ones as a dash."""

    def text(value, places):
        if pd.isna(value):
            return "-"
        if isinstance(value, float):
            return f"{value:,.{places}f}"
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)

    columns = {c: [text(v, decimals.get(c, 3)) for v in table[c].astype(object)] for c in table}
    return pd.DataFrame(columns)


PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px sans-serif; margin: 1.5em }} pre {{ font-size: 13px }} p {{ max-width: 60em; color: #444 }}
table {{ border-collapse: collapse }} th, td {{ padding: .3em .7em; border-bottom: 1px solid #ddd }}
th {{ text-align: left; border-bottom: 2px solid #555 }} .number {{ text-align: right }}
</style>
{body}
"""


def html(table: pd.DataFrame, numeric: list[bool], caption: str, title: str, own: Collection[str] = ()) -> str:
    """Make a page that the report can show in place, from a caption in HTML.

    In columns of `own`, whose text is this package's, what stands in backticks becomes code.
    """
    shows = [marked_up if column in own else in_html for column in table]

    def row(cells, tag, shows):
        marked = zip(cells, numeric, shows, strict=True)
        return "".join(f"<{tag}{' class=number' if n else ''}>{show(str(c))}</{tag}>" for c, n, show in marked)

    head = row(table.columns, "th", [in_html] * len(numeric))
    lines = (f"<tr>{row(values, 'td', shows)}</tr>" for values in table.values.tolist())
    body = f"<p>{caption}</p><table><tr>{head}</tr>" + "\n".join(lines) + "</table>"
    return PAGE.format(title=in_html(title), body=body)


def write(
    table: pd.DataFrame, decimals: dict[str, int], caption: str, csv: str, markdown: str, latex: str, page: str
) -> None:
    write_csv(table, csv)
    shown = rounded(table, decimals)
    numeric = [pd.api.types.is_numeric_dtype(table[c]) for c in table]
    align = ["right" if n else "left" for n in numeric]
    write_text(page, html(shown, numeric, marked_up(caption), Path(page).stem))
    write_text(markdown, markdown_table(shown, align) + "\n")
    escaped = shown.rename(columns=in_latex).map(in_latex)
    write_text(
        latex,
        escaped.to_latex(
            index=False,
            caption=in_latex(caption),
            label=f"tab:{Path(latex).stem}",
            position="tb",
            column_format="".join("r" if n else "l" for n in numeric),
        ),
    )
