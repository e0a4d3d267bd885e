"""Tables: one module each, found by its file name.

A module has a docstring (its caption in the report), `NEEDS` (the results it reads, by the names in
`gnorm.layout.NEEDS`), `make(results, settings)`, which returns a data frame, and `DECIMALS`, which says how columns are
rounded for reading; the CSV keeps every digit. It may also have `OPTIONAL`, `UNIT` and `PUBLISHED`, as in
`gnorm.figures`.
"""

from __future__ import annotations

import importlib
import re
from html import escape
from pathlib import Path
from types import ModuleType

import pandas as pd

from gnorm.files import atomic, write_text


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


def marked_up(text: str) -> str:
    """Escape text for a page; text in backticks becomes code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def html(table: pd.DataFrame, numeric: list[bool], caption: str, title: str) -> str:
    """Make a page that the report can show in place."""

    def row(cells, tag):
        marked = zip(cells, numeric, strict=True)
        return "".join(f"<{tag}{' class=number' if n else ''}>{marked_up(str(c))}</{tag}>" for c, n in marked)

    head, lines = row(table.columns, "th"), (f"<tr>{row(values, 'td')}</tr>" for values in table.values.tolist())
    body = f"<p>{marked_up(caption)}</p><table><tr>{head}</tr>" + "\n".join(lines) + "</table>"
    return PAGE.format(title=escape(title), body=body)


def write(
    table: pd.DataFrame, decimals: dict[str, int], caption: str, csv: str, markdown: str, latex: str, page: str
) -> None:
    with atomic(csv) as temporary:
        table.to_csv(temporary, index=False)
    shown = rounded(table, decimals)
    numeric = [pd.api.types.is_numeric_dtype(table[c]) for c in table]
    align = ["right" if n else "left" for n in numeric]
    write_text(page, html(shown, numeric, caption, Path(page).stem))
    write_text(markdown, shown.to_markdown(index=False, colalign=align, disable_numparse=True) + "\n")
    escaped = shown.rename(columns=lambda c: c.replace("%", r"\%").replace("_", r"\_"))
    escaped = escaped.map(lambda v: v.replace("%", r"\%").replace("_", r"\_"))
    write_text(
        latex,
        escaped.to_latex(
            index=False,
            caption=caption.replace("%", r"\%").replace("_", r"\_"),
            label=f"tab:{Path(latex).stem}",
            position="tb",
            column_format="".join("r" if n else "l" for n in numeric),
        ),
    )
