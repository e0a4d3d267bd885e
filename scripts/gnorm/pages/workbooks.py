"""Excel workbooks."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pandas as pd
from openpyxl.worksheet.worksheet import Worksheet

from gnorm.errors import printable
from gnorm.files import atomic
from gnorm.statistics.columns import with_text


def random_table(trials: pd.DataFrame) -> pd.DataFrame:
    """Arrange trials as in the published workbooks: one row per level, one column per trial."""
    wide = trials.pivot(index="heads_pruned", columns="trial", values="accuracy").sort_index()
    wide.columns = [f"Trial_{i + 1}" for i in range(wide.shape[1])]
    return wide.rename_axis("Heads Pruned").reset_index()


def write(path: str | Path, sheets: dict[str, pd.DataFrame]) -> None:
    with atomic(path) as temporary:
        with pd.ExcelWriter(temporary, engine="openpyxl") as workbook:
            for name, table in sheets.items():
                shown = with_text(table, printable)  # a cell holds no control characters
                shown.to_excel(workbook, sheet_name=name[:31], index=False)
                _only_text(workbook.sheets[name[:31]])
        _forget_when(temporary)


def _only_text(sheet: Worksheet) -> None:
    """Let text be text: by itself, what begins with = becomes a formula, and #N/A an error. Also where it is edited."""
    for row in sheet.iter_rows():
        for cell in row:
            if isinstance(cell.value, str):
                cell.data_type = "s"
                if cell.value[:1] in tuple("=+-@"):
                    cell.quotePrefix = True


def _forget_when(path: Path) -> None:
    """Remove the time of writing from the workbook, so that the same tables give the same file."""
    with zipfile.ZipFile(path) as stored:
        parts = {info.filename: stored.read(info) for info in stored.infolist()}
    with zipfile.ZipFile(path, "w") as workbook:
        for name, part in parts.items():
            if name == "docProps/core.xml":
                part = re.sub(rb"\d{4}-\d\d-\d\dT[\d:]+Z", b"1980-01-01T00:00:00Z", part)
            workbook.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_DEFLATED)  # dated 1980
