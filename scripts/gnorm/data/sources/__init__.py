"""Sources: where datasets and checkpoints come from, one module each, found by its file name.

An entry of a suite names its source under `source`; a checkpoint that is fine-tuned has the entry of the pretrained
model under `from`. The Snakefile imports these modules, so they import libraries inside their functions. A module may
have:

- `check(entry, model, where)`: raises a `UserError` about an entry that cannot work, before anything runs. `model` is
  the model's whole entry of the suite, `where` how a message names this one; `check_together(entries)` does the same
  for all entries of a suite that have this source, pairs of `where` and entry.
- `inputs(entry)`: the files on this machine that it reads.
- `rows(entry, counts, seed)`: its rows and the names of their classes, and `modules(entry)`, the modules that `rows`
  loads by name.
- `LOCATION`: the keys that say where to fetch it from, if it is fetched; `MIRROR`, the setting with a folder to look
  into instead, and `RETRIES`, how often to try again without one.
- `fetch_dataset(entry, path, mirror, archive)` and `fetch_model(entry, path, mirror, archive)`, with the keys of
  `LOCATION` in `entry`.
- `archives(entry)`: the files that it is unpacked from, by name, each with the arguments of `fetch_package`.

`gnorm.data.origins` puts them together. Its keys are in schemas/suite.schema.yaml.
"""

from __future__ import annotations

import importlib
import os
import shlex
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from gnorm.errors import UserError
from gnorm.files import read_json

AHEAD = 60  # seconds that the clock of a file server may be ahead


def load(name: str) -> ModuleType:
    """Import the source called `name` alone, so that a rule can declare it alone."""
    return importlib.import_module(f"{__name__}.{name}")


def check_path(path: str, where: str) -> None:
    """Raise a `UserError` about a path that cannot be an input, whether anything is there or not."""
    if not path or not path.isprintable():
        raise UserError(f"{where}: {path!r} is no path")
    if {*path} & {*"{}"}:
        raise UserError(f"{where}: Snakemake takes {{ and }} for wildcards; rename {path}")
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass  # whoever needs it says so
    except OSError as error:
        raise UserError(f"{where}: {path} cannot be read ({error.strerror}): name another, or correct that") from error


def check_dates(paths: list[str], where: str) -> None:
    """Raise a `UserError` about files dated in the future: what follows from them would be made anew in every run."""
    for path in map(Path, paths):
        if path.stat().st_mtime > time.time() + AHEAD:
            raise UserError(
                f"{where}: {path} is dated in the future: correct that with `touch {shlex.quote(str(path))}`"
            )


def read_config(folder: str | Path) -> dict[str, Any]:
    """Read a checkpoint's configuration, as far as it names classes."""
    path = Path(folder, "config.json")
    if not path.exists():
        raise UserError(f"{folder} holds no model saved by save_pretrained (config.json is missing)")
    config = read_json(path)
    classes = config.get("id2label") or {} if isinstance(config, dict) else None
    if not isinstance(classes, dict) or not all(str(key).isdigit() for key in classes):
        raise UserError(f"{path} must hold an object, and its id2label another, with a name for each number of a class")
    return config


def names() -> list[str]:
    """The names of all sources."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
