"""Reads the rows of a dataset, and draws how often they count in a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet

from gnorm.files import read_json

ROWS, SPLITS = "rows.parquet", "splits.json"  # in the folder of a dataset, which jobs are given whole
LISTS = ("train", "calibration", "entropy", "evaluation")  # the index lists of a dataset
NO_CLASS = -1  # the label of a row that no class covers: accuracy leaves it out


def read(folder: str | Path, which: str) -> list[dict]:
    """Read the rows of one index list, in its order."""
    rows = pyarrow.parquet.read_table(Path(folder, ROWS)).to_pylist()
    return [rows[i] for i in splits(folder)[which]]


def splits(folder: str | Path) -> dict:
    """Read the index lists of a dataset, and what is known of them (`gnorm.data.prepare.facts`)."""
    return read_json(Path(folder, SPLITS))


def resample(count: int, run: int, seed: int) -> list[int]:
    """Draw how often each of `count` rows counts in a run: once in run 0, else a bootstrap resample."""
    if run == 0:
        return [1] * count
    drawn = np.random.default_rng(seed + run).integers(count, size=count)
    return np.bincount(drawn, minlength=count).tolist()
