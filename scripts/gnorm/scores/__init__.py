"""Criteria: one module each, found by its file name, all with the same signature.

`score(model, heads, batches, **settings)` returns a float64 tensor of slots (rows x
heads), zero for pruned slots. Settings are those of `scores:` in the configuration. Beside it a module has
`PRUNE`, the end of the scores that is least important, and `PASSES`, how often each row goes forward and backward
for one score (see `gnorm.effort`). `UNITS` names what it can score, `heads` if it has none: a criterion that needs
nothing but gates, losses or `of_slots` can score `neurons` too. `ATTENTION` says that it reads attention matrices,
which not every model gives: `forward` as they come, `backward` if those of all layers are kept for the way back,
which takes memory.

A module that needs its rows batched in its own way has `batches(tokenizer, rows, weights, tokens, **settings)` and
`BATCHED`, the settings that make it need them ({} if any do); it shares no passes, and joins no hybrid, with those.
A module that runs the plain model once a batch may take `seen(batch, logits)` and call it: rows it has
seen need no evaluation of their own. One that draws at random takes `seed`, one that knows its standard error takes
a dictionary `errors` and puts it there. One whose pass others can share has `reading(**settings)`, see
`gnorm.passes`. One made of others takes `taken`: scores that the same call has, each with its settings, by name.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from types import ModuleType


def load(name: str) -> ModuleType:
    """The criterion called `name`, imported alone so that a rule can declare it alone."""
    return importlib.import_module(f"{__name__}.{name}")


def modules(name: str, settings: Mapping) -> list[str]:
    """The modules that a score loads by name: its own, and those of a hybrid's members."""
    return [f"{__name__}.{score}" for score in (name, *settings.get("members", {}))]


def batched(criterion: ModuleType, settings: Mapping) -> bool:
    """Whether a criterion needs batches of its own."""
    return asks_for(getattr(criterion, "BATCHED", None), settings)


def asks_for(wanted: Mapping | None, settings: Mapping) -> bool:
    return wanted is not None and all(settings.get(key) == value for key, value in wanted.items())


def takes(criterion: ModuleType, argument: str) -> bool:
    return argument in inspect.signature(criterion.score).parameters
