"""Excel workbooks."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from gnorm.files import atomic


def random_table(trials: pd.DataFrame) -> pd.DataFrame:
    """Trials as the published workbooks have them: a row a level, a column a trial."""
    wide = trials.pivot(index="heads_pruned", columns="trial", values="accuracy").sort_index()
    wide.columns = [f"Trial_{i + 1}" for i in range(wide.shape[1])]
    return wide.rename_axis("Heads Pruned").reset_index()


def write(path: str | Path, sheets: dict[str, pd.DataFrame]) -> None:
    with atomic(path) as temporary, pd.ExcelWriter(temporary, engine="openpyxl") as workbook:
        for name, table in sheets.items():
            table.to_excel(workbook, sheet_name=name[:31], index=False)
