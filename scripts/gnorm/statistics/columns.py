"""Columns of the tables that jobs write, and reading them; imports no torch."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from gnorm.errors import UserError
from gnorm.files import atomic

# Numbers of a trajectory, and of random trials.
STEPS = ("run", "step", "heads_pruned", "heads_left", "accuracy", "correct", "evaluated", "parameters", "seconds")
TRIALS = ("trial", "heads_pruned", "heads_left", "accuracy")

# Of the tidy table: one row a step of a trajectory, or a level of a random trial.
COLUMNS = (
    "model strategy run trial step heads_pruned heads_left fraction_pruned layer head score accuracy correct "
    "evaluated parameters seconds unit"
).split()

# Names, and whatever else is read as it was written: a model called 007 is no number, and one called NA not missing.
TEXT = (
    "model strategy against unit criterion group module text part status item evidence section shape procedure what "
    "machine"
).split()


# Where a spreadsheet would begin a formula: at the start of text, or of what it takes for the next cell or row. Quotes
# in front do not count, so that one more can be set and taken away; numbers and a dash alone are no formulas.
_CELL = r"(?:\A|(?<=[;\t\r\n]))"
_NUMBER = r"(?:[+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?%?|-)(?:[;\t\r\n]|\Z)"
_FORMULA = rf"(?='* *(?!{_NUMBER})[=+\-@\uff1d\uff0b\uff0d\uff20])"
_OPEN, _QUOTED = re.compile(_CELL + _FORMULA), re.compile(f"{_CELL}'{_FORMULA}")


def write_csv(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table of the project. Text that a spreadsheet would run gets a ' in front; `read_csv` takes it away."""
    quoting = csv.QUOTE_MINIMAL

    def guarded(text: str) -> str:
        nonlocal quoting
        if "\r" in text:  # by itself that gets no quotes, and readers take it for the end of a row
            quoting = csv.QUOTE_NONNUMERIC
        return _OPEN.sub("'", text)

    shown = with_text(table, guarded)
    with atomic(path) as temporary:
        shown.to_csv(temporary, index=False, quoting=quoting)


def read_csv(path: str | Path) -> pd.DataFrame:
    """Read a table of the project: columns of `TEXT` as written, in the others numbers; an empty cell is missing."""
    table = pd.read_csv(path, dtype=dict.fromkeys(TEXT, str), keep_default_na=False, na_values=[""])
    return with_text(table, lambda text: _QUOTED.sub("", text))


def with_text(table: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    """Change the text of a table, that of its head too; each text is asked for once a column."""
    changed = table.rename(columns=lambda name: change(name) if isinstance(name, str) else name)
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        if pd.api.types.is_numeric_dtype(column):
            continue
        texts = {text: change(text) for text in column.unique() if isinstance(text, str)}
        if any(text != other for text, other in texts.items()):
            changed.isetitem(place, column.map(lambda cell, texts=texts: texts.get(cell, cell)))
    return changed


def read_table(path: str | Path, numbers: Sequence[str]) -> pd.DataFrame:
    """A CSV file that must have these columns, with numbers or nothing in them."""
    try:
        table = read_csv(path)
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
