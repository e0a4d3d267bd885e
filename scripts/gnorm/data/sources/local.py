"""Models in a folder on this machine, as `save_pretrained` writes them."""

from __future__ import annotations

from pathlib import Path

from gnorm.data.saved import check_folder
from gnorm.data.sources import check_dates, check_path, read_config
from gnorm.errors import UserError
from gnorm.models.folders import vet


def check(entry: dict, model: dict, where: str) -> None:
    where = f"{where}.path"
    check_path(entry["path"], where)
    try:
        vet(entry["path"])
        read_config(entry["path"])
        check_folder(entry["path"])
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    files = inputs(entry)
    for path in files:
        check_path(path, where)
    check_dates(files, where)


def inputs(entry: dict) -> list[str]:
    """List every file in the folder."""
    return sorted(str(path) for path in Path(entry["path"]).rglob("*") if path.is_file())
