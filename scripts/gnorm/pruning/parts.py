"""Tables of runs or random trials that are divided among jobs: each job writes a part, signed for later jobs."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from gnorm.files import atomic
from gnorm.logs import log
from gnorm.resume import State


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    """Turn a table's cells into text as written, so that reading and writing it again changes nothing."""
    return _read(io.StringIO(table.to_csv(index=False)))


def _read(source: str | Path | io.StringIO) -> pd.DataFrame:
    return pd.read_csv(source, dtype=str, keep_default_na=False)


def write(path: str | Path, tables: Iterable[pd.DataFrame]) -> None:
    """Join the tables of runs or trials, made by `as_text`, into the table of the part."""
    with atomic(path) as temporary:
        pd.concat(tables, ignore_index=True).to_csv(temporary, index=False)


def finished(state: State, folder: str | Path, column: str) -> dict[int, tuple[pd.DataFrame, Path]]:
    """Find complete runs or trials in other parts of the same work: their tables and the parts' signatures.

    `column` has their numbers. Only signed parts count: nothing else says which work a file belongs to.
    """
    done = {}
    for signature in state.signed(folder):
        for number, table in _read(signature.with_suffix(".csv")).groupby(column, sort=False):
            done[int(number)] = table, signature
    if done:
        log.info("%s: %s %s are there already", folder, column, ", ".join(map(str, sorted(done))))
    return done
