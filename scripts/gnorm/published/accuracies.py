"""The published accuracies: curves of strategies and random trials, read as they are."""

from __future__ import annotations

import re
import xml.parsers.expat
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from gnorm.errors import UserError
from gnorm.statistics.columns import read_csv

LARGEST = 2**24  # bytes of a file, and of all that a workbook unpacks to
CELLS = 1_000_000  # of a sheet
MOST_HEADS = 1_000_000
LONGEST = 32_767  # characters of a cell, as in Excel


def read(path: str | Path) -> pd.DataFrame:
    try:
        if Path(path).stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        if Path(path).suffix == ".csv":
            table = read_csv(path)
        else:
            check_workbook(path)
            table = pd.read_excel(path)
    except Exception as error:  # the type of error depends on the damage
        raise UserError(f"{path} cannot be read: {' '.join(str(error).split()) or type(error).__name__}") from error
    for name in map(str, table.columns):
        first, _, number = name.rpartition(".")
        if number.isdigit() and first in table:  # as pandas tells two of one name apart
            raise UserError(f"{path} has two columns {first!r}: remove one, or rename it")
    return table


def check_workbook(path: str) -> None:
    """Raise a `ValueError` about a workbook that is far larger than it looks, or whose XML defines things of its own.

    A cell says its own row and column, and a reader fills all that lie before it.
    """
    with zipfile.ZipFile(path) as book:
        if sum(info.file_size for info in book.infolist()) > LARGEST:
            raise ValueError(f"it unpacks to more than {LARGEST:,} bytes")
        for name in book.namelist():
            try:
                _check_part(book.read(name), name)  # by whatever name: a workbook says which of its parts is a sheet
            except xml.parsers.expat.ExpatError:
                if name.endswith((".xml", ".rels")):
                    raise


def _check_part(text: bytes, name: str) -> None:
    furthest = {"rows": 0, "columns": 0, "written": 0, "letters": 0}

    def start(element: str, attributes: dict[str, str]) -> None:
        furthest["letters"] = 0
        kind = element.rpartition(":")[2]
        if kind not in ("row", "c"):
            return
        furthest["written"] += 1
        if said := attributes.get("r"):
            place = re.fullmatch(r"([A-Z]{0,3})([0-9]{1,7})", said)
            if not place or bool(place[1]) != (kind == "c"):  # a reader may take it for a number of any size
                raise ValueError(f"{name} in it has a {kind} in {said[:40]!r}, which is no place")
            column = 0
            for letter in place[1]:
                column = 26 * column + ord(letter) - ord("A") + 1
            furthest["rows"] = max(furthest["rows"], int(place[2]))
            furthest["columns"] = max(furthest["columns"], column)
        if max(furthest["rows"] * max(furthest["columns"], 1), furthest["written"]) > CELLS:
            raise ValueError(f"{name} in it has more than {CELLS:,} cells")

    def text_of(part: str) -> None:
        furthest["letters"] += len(part)
        if furthest["letters"] > LONGEST:
            raise ValueError(f"{name} in it has more than {LONGEST:,} characters in a cell")

    def declared(*_: object) -> None:
        raise ValueError(f"{name} in it declares a document type, which workbooks do not have")

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler, parser.StartDoctypeDeclHandler = start, declared
    parser.CharacterDataHandler = text_of
    parser.Parse(text, True)


def checked(table: pd.DataFrame, path: str, columns: Sequence[str]) -> pd.DataFrame:
    """The table if it has these columns, and numbers in them."""
    for column in columns:
        if column not in table:
            raise UserError(f"{path} has no column {column!r}; it has {', '.join(map(str, table.columns))}")
        if not pd.api.types.is_numeric_dtype(table[column]) or table[column].isna().any():
            raise UserError(f"{path}: column {column!r} must hold numbers only")
    accuracy, heads = table[list(columns[1:])], table[columns[0]]
    if not ((accuracy >= 0) & (accuracy <= 1)).all(axis=None):
        raise UserError(f"{path}: accuracies must lie between 0 and 1")
    if not (heads.between(0, MOST_HEADS) & (heads % 1 == 0)).all():
        raise UserError(f"{path}: column {columns[0]!r} must hold whole numbers from 0 to {MOST_HEADS:,}")
    if not heads.is_monotonic_increasing:
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
