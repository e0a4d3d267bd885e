"""Formats of dataset files, told by their names, and the settings that go with each; imports no library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnorm.errors import UserError

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}  # of lines of columns
KNOWN = (".csv", ".json", ".jsonl", ".parquet", ".tsv", ".txt")
LINES = (".csv", ".json", ".jsonl", ".ndjson", ".tsv", ".txt")  # of the hub, where they may be packed
OF_LINES = ("columns", "separator")
SETTINGS = (*OF_LINES, "encoding")  # of a file, in the order in which `records.read` takes them


def check(name: str, entry: Mapping[str, Any], where: str) -> None:
    """Raise a `UserError` about a file that cannot be read, or not with these settings."""
    suffix = Path(name).suffix
    if suffix not in KNOWN:
        raise UserError(f"{where}: {name}: the file must end in one of {', '.join(KNOWN)}")
    for key in SETTINGS:
        if entry.get(key) is not None and (suffix == ".parquet" or (suffix not in SEPARATORS and key in OF_LINES)):
            raise UserError(f"{where}: `{key}` has no meaning for a {suffix} file, {name}: leave it out")
