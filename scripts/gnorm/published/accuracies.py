"""The published accuracies: curves of strategies and random trials, read as they are."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence

import pandas as pd

from gnorm.errors import UserError


def read(path: str) -> pd.DataFrame:
    try:
        return pd.read_csv(path) if path.endswith(".csv") else pd.read_excel(path)
    except (ValueError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def checked(table: pd.DataFrame, path: str, columns: Sequence[str]) -> pd.DataFrame:
    """The table if it has these columns, and numbers in them."""
    for column in columns:
        if column not in table:
            raise UserError(f"{path} has no column {column!r}; it has {', '.join(map(str, table.columns))}")
        if not pd.api.types.is_numeric_dtype(table[column]) or table[column].isna().any():
            raise UserError(f"{path}: column {column!r} must hold numbers only")
    accuracy = table[list(columns[1:])]
    if not ((accuracy >= 0) & (accuracy <= 1)).all(axis=None):
        raise UserError(f"{path}: accuracies must lie between 0 and 1")
    if not table[columns[0]].is_monotonic_increasing:
        raise UserError(f"{path}: column {columns[0]!r} must rise from row to row")
    return table


def curve(path: str) -> pd.DataFrame:
    table = checked(read(path), path, ("Pruned_Heads", "Accuracy"))
    return pd.DataFrame({"heads_pruned": table["Pruned_Heads"], "accuracy": table["Accuracy"]})


def trials(paths: Sequence[str]) -> pd.DataFrame:
    """Every trial of a model's groups, numbered through."""
    parts, count = [], 0
    for path in paths:
        table = read(path)
        names = [c for c in table if str(c).startswith("Trial_")]
        if not names:
            raise UserError(f"{path} has no column 'Trial_1'; it has {', '.join(map(str, table.columns))}")
        checked(table, path, ("Heads Pruned", *names))
        for name in names:
            part = pd.DataFrame({"heads_pruned": table["Heads Pruned"], "accuracy": table[name], "trial": count})
            parts.append(part)
            count += 1
    return pd.concat(parts)
