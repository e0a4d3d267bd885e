"""Figures: one module each, found by its file name in lower case.

A module has a docstring (its caption in the report), `NEEDS` (the results it reads, by the names in
`gnorm.layout.NEEDS`) and `draw(results, settings)`, which returns a figure. It may also have

- `SHOWN`: the settings of the configuration that it reads (`Suite.shown`), none by default.
- `OPTIONAL`: results it reads where some model has them. A figure whose `NEEDS` no model has is left out.
- `ONLY`: what it is about, as the suite names it (`gnorm.planning.suite`): `tied` models, `published_random` pruning.
  A figure of something that the suite does not have is left out.
- `UNIT`: the unit its strategies prune, `heads` by default. A figure of a unit that no strategy prunes is left out.
- `PUBLISHED`: its name, if it can be drawn from the published results alone.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name.lower()}")
