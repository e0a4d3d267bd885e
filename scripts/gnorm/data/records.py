"""Reads the records of a CSV, JSON lines, parquet or tab-separated text file unchanged."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

import datasets
import pyarrow

from gnorm.errors import UserError
from gnorm.files import atomic

datasets.disable_progress_bars()
FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}
SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
UNREADABLE = (datasets.exceptions.DatasetsError, pyarrow.ArrowException)  # errors of a damaged file


def read(path: str | Path, columns: Sequence[str] | None = None, separator: str | None = None) -> datasets.Dataset:
    """Read all records; `columns` names those of a text file without a header line."""
    path = Path(path)
    if path.suffix not in (known := dict.fromkeys([*FORMATS, *SEPARATORS])):
        raise UserError(f"dataset {path}: the file must end in one of {', '.join(known)}")
    if not path.exists():
        raise UserError(f"dataset {path} does not exist; set `path:` of the dataset in the suite")
    if columns or separator or path.suffix not in FORMATS:
        return _separated(path, columns, separator or SEPARATORS.get(path.suffix, ","))
    with tempfile.TemporaryDirectory() as cache:
        try:
            return datasets.load_dataset(
                FORMATS[path.suffix], data_files=str(path), split="train", cache_dir=cache, keep_in_memory=True
            )
        except UNREADABLE as error:
            raise UserError(f"dataset {path} cannot be read ({reason(error)})") from error


def _separated(path: Path, columns: Sequence[str] | None, separator: str) -> datasets.Dataset:
    """Read lines of text columns. Between tabs a quote is an ordinary character."""
    quoting = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    records: list[dict[str, str]] = []
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = csv.reader(file, delimiter=separator, quoting=quoting)
            names = list(columns) if columns else next(lines, [])
            for cells in lines:
                if len(cells) != len(names):
                    mismatch = f"{len(cells)} columns instead of the {len(names)} of {', '.join(names)}"
                    raise UserError(
                        f"dataset {path}, line {lines.line_num}: {mismatch}; correct `columns:` or `separator:`"
                    )
                records.append(dict(zip(names, cells, strict=True)))
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"dataset {path} cannot be read ({reason(error)})") from error
    return datasets.Dataset.from_list(records)


def reason(error: BaseException) -> str:
    """Describe the first cause of an error in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__


def write(records: datasets.Dataset, path: str | Path) -> None:
    buffer = io.BytesIO()
    records.to_parquet(buffer)
    with atomic(path) as temporary:  # Python writes the file: the library aborts the whole process if the disk is full
        temporary.write_bytes(buffer.getbuffer())
