"""Columns of trajectories, random trials and the tidy table, and reading them; imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from gnorm.errors import UserError

# Numbers of a trajectory, and of random trials.
STEPS = ("run", "step", "heads_pruned", "heads_left", "accuracy", "correct", "evaluated", "parameters", "seconds")
TRIALS = ("trial", "heads_pruned", "heads_left", "accuracy")

# Of the tidy table: one row a step of a trajectory, or a level of a random trial.
COLUMNS = (
    "model strategy run trial step heads_pruned heads_left fraction_pruned layer head score accuracy correct "
    "evaluated parameters seconds unit"
).split()


def read_table(path: str | Path, numbers: Sequence[str]) -> pd.DataFrame:
    """A CSV file that must have these columns, with numbers or nothing in them."""
    try:
        table = pd.read_csv(path)
    except (ValueError, OSError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    for column in numbers:
        if column not in table:
            raise UserError(f"{path} has no column {column!r}; it has {', '.join(map(str, table.columns))}")
        if not pd.api.types.is_numeric_dtype(table[column]):
            wrong = pd.to_numeric(table[column], errors="coerce").isna() & table[column].notna()
            row = int(wrong.idxmax())
            raise UserError(f"{path}: column {column!r} must hold numbers, row {row} has {table[column][row]!r}")
    return table


def read_run(path: str | Path, run: int = 0) -> pd.DataFrame:
    """The steps of one run, from the file of the part of a trajectory's runs that holds it."""
    table = read_table(path, STEPS)
    steps = table[table["run"] == run].reset_index(drop=True)
    if steps.empty:
        raise UserError(f"{path} has no run {run}; it has {', '.join(map(str, table['run'].unique()))}")
    return steps


def order_of(steps: pd.DataFrame) -> list[tuple[int, int]]:
    """List the slots (layer, head) in the order in which a run pruned them."""
    pruned = steps.dropna(subset=["layer", "head"])
    return [(int(layer), int(head)) for layer, head in zip(pruned["layer"], pruned["head"], strict=True)]
