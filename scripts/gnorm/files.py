"""Files that are complete or absent, and tensors that are data and never code."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gnorm import UserError


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name when the block ends well.

    The block may make a file or a directory there. The temporary name keeps the suffix,
    because writers choose their format by it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield scratch / path.name
        if (scratch / path.name).is_dir() and path.is_dir():
            shutil.rmtree(path)
        os.replace(scratch / path.name, path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


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
    """What `save_tensors` wrote; anything that would run code on loading is refused."""
    import pickle

    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise UserError(f"{path} is not a readable tensor file ({str(error).splitlines()[0]})") from error
