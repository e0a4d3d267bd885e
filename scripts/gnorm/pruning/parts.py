"""Tables of runs or random trials that are divided among jobs: each job writes a part, signed for later jobs."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch

from gnorm.engine.metrics import ByRow
from gnorm.files import atomic
from gnorm.logs import log
from gnorm.resume import State
from gnorm.statistics import outcomes
from gnorm.statistics.outcomes import Outcomes


class Finished(NamedTuple):
    """A complete run or trial in a part that a job has signed."""

    table: pd.DataFrame
    outcomes: Outcomes
    signature: Path


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    """Turn a table's cells into text as written, so that reading and writing it again changes nothing."""
    return _read(io.StringIO(table.to_csv(index=False)))


def _read(source: str | Path | io.StringIO) -> pd.DataFrame:
    return pd.read_csv(source, dtype=str, keep_default_na=False)


def write(path: str | Path, tables: Iterable[pd.DataFrame]) -> None:
    """Join the tables of runs or trials, made by `as_text`, into the table of the part."""
    with atomic(path) as temporary:
        pd.concat(tables, ignore_index=True).to_csv(temporary, index=False)


def of_each(path: str | Path, column: str) -> dict[int, pd.DataFrame]:
    """Divide a part's table into those of its runs or trials, whose numbers are in `column`."""
    return {int(number): table for number, table in _read(path).groupby(column, sort=False)}


def finished(state: State, folder: str | Path, column: str) -> dict[int, Finished]:
    """Find complete runs or trials in other parts of the same work.

    Only signed parts count: nothing else says which work a file belongs to.
    """
    done = {}
    for signature in state.signed(folder):
        answered = outcomes.read(signature.with_suffix(".rows.npz"))
        tables = of_each(signature.with_suffix(".csv"), column)
        done |= {n: Finished(table, answered.of_curve(n), signature) for n, table in tables.items()}
    if done:
        log.info("%s: %s %s are there already", folder, column, ", ".join(map(str, sorted(done))))
    return done


class Answered:
    """Outcomes of a run or trial, point by point.

    Every few of them have a state of their own, so that a point of many rows does not write all others again.
    """

    FEW = 16

    def __init__(self, state: State, curve: int, name: str = "rows"):
        self.state, self.curve, self.name = state, curve, name
        self.points: list[Outcomes] = []

    def restore(self, points: int) -> bool:
        """Take as many points as an interrupted run has recorded; if they are not there, refuse its state."""
        for first in range(0, points, self.FEW):
            stored = self._part(first).load()
            if stored:
                arrays = {name: tensor.numpy() for name, tensor in stored.items()}
                self.points += Outcomes.from_arrays(arrays).points[: points - first]
        if len(self.points) < points:
            self.points = []
            self.state.refuse("what was answered on each row is not there")
        return bool(self.points)

    def add(self, by_row: ByRow, heads_pruned: int, heads: int) -> None:
        """Save it before the step that it belongs to is recorded."""
        self.points.append(Outcomes.of(by_row, curve=self.curve, heads_pruned=heads_pruned, heads=heads))
        first = (len(self.points) - 1) // self.FEW * self.FEW
        few = outcomes.join(self.points[first:]).arrays
        self._part(first).save({name: torch.from_numpy(array) for name, array in few.items()})

    def _part(self, first: int) -> State:
        return self.state.part(f"{self.name}{first}")

    @property
    def outcomes(self) -> Outcomes:
        return outcomes.join(self.points)
