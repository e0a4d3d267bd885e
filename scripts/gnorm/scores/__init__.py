"""Criteria: one module each, found by its file name, all with the same signature.

`score(model, slots, batches, **settings)` returns a float64 tensor of slots, zero for pruned ones. The settings are
those of `scores:` in the configuration. A module also has constants; `describe` reads them without importing it:

- `PRUNE`: the end of the scores that is least important.
- `PASSES`: how often each row goes forward and backward for one score. Two formulas of the settings and of `slots` and
  `layers`, the numbers that are left.
- `UNITS`: the units it can score, `("heads",)` by default. A criterion that needs only gates, losses or `of_slots`
  can score `neurons` too.
- `ATTENTION`: set if it reads attention matrices, which not every model gives. `forward` uses them layer by layer,
  `backward` keeps those of all layers for the backward pass, which takes memory.
- `ROWS`: the index list of the dataset that it reads, `calibration` by default.
- `BATCHED`: the settings with which it needs batches of its own ({} for all settings). It makes them with
  `batches(tokenizer, rows, weights, tokens, **settings)`. Such criteria cannot share passes or join hybrids.

A module may also have:

- `from_shards(slots, paths, weights, checkpoint)`: computes the score from shard files that other jobs have written.
- `order(slots, strategy, seed, trial)`: draws the slots in the order of one random trial, instead of a ranking.
- `reading(**settings)`: lets its pass be shared, see `gnorm.engine.passes`.

`score` may take `seen(batch, logits)` and call it once for every batch of the plain model: rows that were seen need no
separate evaluation. It may also take `seed` for random draws, `errors`, a dictionary for its standard error, `taken`,
scores that the same call has with their settings, and `members`, the settings of the criteria that it is made of.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from gnorm import imports

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Description:
    """The constants and functions of a criterion's module."""

    name: str
    prune: str
    formulas: tuple[str, str] | None
    units: tuple[str, ...]
    attention: str
    rows: str
    batched: Mapping | None
    functions: Mapping[str, tuple[str, ...]]  # with their arguments

    def takes(self, argument: str) -> bool:
        return argument in self.functions["score"]

    def needs_own_batches(self, settings: Mapping) -> bool:
        return self.batched is not None and all(settings.get(key) == value for key, value in self.batched.items())

    @property
    def stored(self) -> bool:
        """Whether its score can be computed from shards."""
        return "from_shards" in self.functions

    @property
    def drawn(self) -> bool:
        """Whether orders are drawn at random instead of ranked."""
        return "order" in self.functions

    @property
    def made_of_others(self) -> bool:
        return self.takes("members")

    def passes(self, settings: Mapping, slots: int, layers: int) -> tuple[int, int]:
        """How often each row goes forward and backward; an upper bound for a hybrid, whose members may share passes."""
        if not slots:
            return 0, 0
        if self.made_of_others:
            each = [describe(name).passes(own, slots, layers) for name, own in settings.get("members", {}).items()]
            return sum(forward for forward, _ in each), sum(backward for _, backward in each)
        names = {**settings, "slots": slots, "layers": layers}
        forward, backward = (eval(formula, {"__builtins__": {}}, names) for formula in self.formulas)
        return forward, backward


@cache
def describe(name: str) -> Description:
    """Describe the criterion called `name` from its source: importing it would import torch."""
    source = FOLDER / f"{name}.py"
    return Description(
        name=name,
        prune=imports.constant(source, "PRUNE"),
        formulas=imports.constant(source, "PASSES", None),
        units=imports.constant(source, "UNITS", ("heads",)),
        attention=imports.constant(source, "ATTENTION", ""),
        rows=imports.constant(source, "ROWS", "calibration"),
        batched=imports.constant(source, "BATCHED", None),
        functions=imports.functions(source),
    )


@cache
def names() -> list[str]:
    """The names of all criteria."""
    return sorted(path.stem for path in FOLDER.glob("[!_]*.py") if imports.constant(path, "PRUNE", None))


def load(name: str) -> ModuleType:
    """Import the criterion called `name` alone, so that a rule can declare it alone."""
    return importlib.import_module(f"{__name__}.{name}")


def modules(name: str, settings: Mapping) -> list[str]:
    """The modules that a score loads by name, as rules declare them: its own, and those of a hybrid's members."""
    return [f"scores.{score}" for score in (name, *settings.get("members", {}))]
