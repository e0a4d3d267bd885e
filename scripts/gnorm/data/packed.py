"""Downloaded files of rows, which a library unpacks whatever their names are: checked for what they unpack to."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
from functools import partial
from pathlib import Path

import pyarrow.parquet
from datasets.utils.extract import Extractor

from gnorm.data import formats, records
from gnorm.errors import UserError
from gnorm.files import LIMIT, ROOM, WHOLE, within_memory

# How files may be packed, by the ends of their names: what the library calls it, and what unpacks it.
PACKED = {
    ".gz": ("gzip", gzip.open),
    ".bz2": ("bz2", bz2.open),
    ".xz": ("xz", lzma.open),
    ".zip": ("zip", None),
}
CHUNK = 2**20


def check(folder: Path, where: str) -> None:
    """Raise a `UserError` about files in a folder that are far larger than they look, or packed unlike their names."""
    total = 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        own = f"{where}: {path.relative_to(folder)}"
        try:
            with within_memory(2 * LIMIT + ROOM):
                total += _size(path, own)
        except UserError:
            raise
        except Exception as error:  # the type of error depends on the damage
            raise UserError(f"{own} cannot be read ({records.reason(error)})") from error
        if total > WHOLE:
            raise UserError(f"{where} holds more than {WHOLE:,} bytes: it is not read")


def _size(path: Path, where: str) -> int:
    """Count the bytes that a file unpacks to."""
    kind, unpack = PACKED.get(path.suffix, (None, partial(open, mode="rb")))
    if Extractor.infer_extractor_format(path) != kind:
        raise UserError(f"{where} is packed in another way than its name says: it is not read")
    if path.suffix == ".parquet":
        with open(path, "rb") as file:
            return sum(batch.nbytes for batch in records.batches(pyarrow.parquet.ParquetFile(file), where))
    if kind == "zip":
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
        others = [info.filename for info in members if not info.filename.endswith(formats.LINES)]
        if others:
            raise UserError(f"{where} holds {others[0]!r}: of an archive only {', '.join(formats.LINES)} are read")
        records.check_size(size := sum(info.file_size for info in members), 0, where)
        return size
    size = 0
    with unpack(path) as file:
        while piece := file.read(CHUNK):
            records.check_size(size := size + len(piece), 0, where)
    return size
