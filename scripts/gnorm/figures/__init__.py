"""Figures: one module each, found by its file name in lower case.

A module has a docstring (its caption in the report), `NEEDS` (what it reads of the results, see
`gnorm.statistics.results`) and `draw(results, settings)`, which returns a figure. `UNIT` is what its strategies prune,
`heads` if it has none; a figure of what no strategy prunes is not drawn.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name.lower()}")
