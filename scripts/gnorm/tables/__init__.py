"""Tables: one module each, found by its file name.

A module has a docstring (its caption in the report), `NEEDS` (what it reads of the
results, see `gnorm.results`) and `make(results, settings)`, which returns a data frame.
`DECIMALS` says how the columns are rounded for reading; the CSV keeps every digit.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pandas as pd

from gnorm.files import atomic, write_text


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


def rounded(table: pd.DataFrame, decimals: dict[str, int]) -> pd.DataFrame:
    """Every cell as text: numbers with their column's decimals, missing ones as a dash."""

    def text(value, places):
        if pd.isna(value):
            return "-"
        if isinstance(value, float):
            return f"{value:,.{places}f}"
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)

    columns = {c: [text(v, decimals.get(c, 3)) for v in table[c].astype(object)] for c in table}
    return pd.DataFrame(columns)


def write(table: pd.DataFrame, decimals: dict[str, int], caption: str, csv: str, markdown: str, latex: str) -> None:
    with atomic(csv) as temporary:
        table.to_csv(temporary, index=False)
    shown = rounded(table, decimals)
    numeric = [pd.api.types.is_numeric_dtype(table[c]) for c in table]
    align = ["right" if n else "left" for n in numeric]
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
