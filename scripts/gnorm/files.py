"""Files that are complete or absent, and tensors that are data and never code."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gnorm.errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that is renamed to `path` if the block succeeds.

    The block may make a file or a directory there. The temporary name keeps the suffix,
    because writers choose their format by it. The content is on the disk before it is renamed, so a
    power cut leaves no empty file under the final name. The user sees one line about a full disk.
    """
    path, scratch = Path(path), None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        yield scratch / path.name
        _to_disk(scratch / path.name)
        if (scratch / path.name).is_dir() and path.is_dir():  # moved whole: never a half-deleted folder
            os.rename(path, scratch / f"{path.name}.old")
        os.replace(scratch / path.name, path)
        _sync(path.parent)
    except UserError:
        raise
    except Exception as error:
        if _disk_is_full(error, scratch):
            raise UserError(f"the disk is full: {path} was not written; make room and start again") from error
        raise
    finally:
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)


def _remove_leftovers(path: Path) -> None:
    """Remove temporary folders of this file that a killed writer has left."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}")  # as mkdtemp names them
    with os.scandir(path.parent) as entries:
        for name in [entry.name for entry in entries if ours.fullmatch(entry.name)]:
            shutil.rmtree(path.parent / name, ignore_errors=True)


def _to_disk(written: Path) -> None:
    for folder, _, names in os.walk(written) if written.is_dir() else ():
        for name in names:
            _sync(Path(folder, name))
        _sync(Path(folder))
    if written.is_file():
        _sync(written)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _disk_is_full(error: Exception, scratch: Path | None) -> bool:
    """Whether the disk is full. Writers in other languages hide why they failed, so this tries to write."""
    if isinstance(error, OSError) and error.errno in FULL:
        return True
    try:
        if scratch:
            (scratch / "room").write_bytes(bytes(2**16))
            _sync(scratch / "room")
    except OSError as probed:
        return probed.errno in FULL
    return False


def write_text(path: str | Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def save_tensors(path: str | Path, value: Any) -> None:
    import torch

    with atomic(path) as temporary:
        torch.save(value, temporary)


def load_tensors(path: str | Path) -> Any:
    """Load what `save_tensors` wrote; refuses damaged files and anything that would run code."""
    import torch

    try:
        if zipfile.is_zipfile(path):  # torch does not compare the checksums that it stores
            with zipfile.ZipFile(path) as archive:
                if damaged := archive.testzip():
                    raise UserError(f"{path} is damaged: the checksum of {damaged} is wrong")
        return torch.load(path, map_location="cpu", weights_only=True)
    except (UserError, FileNotFoundError):
        raise
    except Exception as error:  # the type of error depends on the damage
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"{path} is not a readable tensor file ({reason})") from error


def digest(path: str | Path) -> str:
    """Compute the digest of a file's content, or of all files in a folder and their names."""
    path, total = Path(path), hashlib.sha256()
    # Snakemake puts a file of its own into a folder.
    inside = sorted(p for p in path.rglob("*") if p.is_file() and p.name != ".snakemake_timestamp")
    for file in inside if path.is_dir() else [path]:
        with open(file, "rb") as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
        if not path.is_dir():
            return content
        total.update(f"{file.relative_to(path).as_posix()} {content}\n".encode())
    return total.hexdigest()
