"""Reading the rows of a dataset, and which of them count in a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet

from gnorm.files import read_json

NO_CLASS = -1  # the label of a row that no class covers: accuracy leaves it out


def read(folder: str | Path, which: str) -> list[dict]:
    """The rows of one index list, in its order."""
    rows = pyarrow.parquet.read_table(Path(folder) / "rows.parquet").to_pylist()
    return [rows[i] for i in read_json(Path(folder) / "splits.json")[which]]


def resample(count: int, run: int, seed: int) -> list[int]:
    """How often each of `count` rows counts in a run: once in run 0, else a bootstrap resample."""
    if run == 0:
        return [1] * count
    drawn = np.random.default_rng(seed + run).integers(count, size=count)
    return np.bincount(drawn, minlength=count).tolist()
