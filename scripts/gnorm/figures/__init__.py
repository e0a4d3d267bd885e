"""Figures: one module each, found by its file name in lower case.

A module has a docstring (its caption in the report), `NEEDS` (what it reads of the
results, see `gnorm.results`) and `draw(results, settings)`, which returns a figure.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name.lower()}")
