"""Records of a CSV, JSON lines or parquet file, as they are."""

from __future__ import annotations

import tempfile
from pathlib import Path

import datasets
import pyarrow

from gnorm import UserError
from gnorm.files import atomic

datasets.disable_progress_bars()
FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}
UNREADABLE = (datasets.exceptions.DatasetsError, pyarrow.ArrowException)  # what a broken file raises


def read(path: str | Path) -> datasets.Dataset:
    path = Path(path)
    if path.suffix not in FORMATS:
        raise UserError(f"dataset {path}: the file must end in one of {', '.join(FORMATS)}")
    if not path.exists():
        raise UserError(f"dataset {path} does not exist; set `path:` of the dataset in the suite")
    with tempfile.TemporaryDirectory() as cache:
        try:
            return datasets.load_dataset(
                FORMATS[path.suffix], data_files=str(path), split="train", cache_dir=cache, keep_in_memory=True
            )
        except UNREADABLE as error:
            raise UserError(f"dataset {path} cannot be read ({reason(error)})") from error


def reason(error: BaseException) -> str:
    """What went wrong in the first place, as one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__


def write(records: datasets.Dataset, path: str | Path) -> None:
    with atomic(path) as temporary:
        records.to_parquet(temporary)
