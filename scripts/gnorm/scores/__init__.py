"""Criteria: one module each, found by its file name, all with the same signature.

`score(model, slots, batches, **settings)` returns a float64 tensor of slots, zero for pruned ones. Settings are those
of `scores:` in the configuration. Beside it a module has constants; `describe` reads them without importing the module:

- `PRUNE`: the end of the scores that is least important.
- `PASSES`: how often each row goes forward and backward for one score, two formulas of the settings and of `slots` and
  `layers`, how many are left.
- `UNITS`: what it can score, `("heads",)` by default. A criterion that needs nothing but gates, losses or `of_slots`
  can score `neurons` too.
- `ATTENTION`: it reads attention matrices, which not every model gives: `forward` as they come, `backward` if those of
  all layers are kept for the backward pass, which takes memory.
- `ROWS`: the index list of the dataset that it reads, `calibration` by default.
- `BATCHED`: the settings that make it need batches of its own ({} if any do), which it makes with
  `batches(tokenizer, rows, weights, tokens, **settings)`. Such criteria cannot share passes or join hybrids.

What else a module may have:

- `from_shards(slots, paths, weights, checkpoint)`: its score from files that other jobs have made of its rows.
- `order(slots, strategy, seed, trial)` instead of a rank: the slots in the order of one random trial.
- `reading(**settings)`: its pass can be shared, see `gnorm.engine.passes`.
- `score` may take `seen(batch, logits)` and call it once for every batch of the plain model: rows it has seen need no
  evaluation of their own. It may take `seed` to draw with, `errors`, a dictionary for its standard error, `taken`,
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
    """What a criterion says of itself."""

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
        """Whether its score can be read from shards."""
        return "from_shards" in self.functions

    @property
    def drawn(self) -> bool:
        """Whether orders are drawn at random instead of ranked."""
        return "order" in self.functions

    @property
    def made_of_others(self) -> bool:
        return self.takes("members")

    def passes(self, settings: Mapping, slots: int, layers: int) -> tuple[int, int]:
        """How often each row goes forward and backward; of a hybrid at most, as its members may share passes."""
        if not slots:
            return 0, 0
        if self.made_of_others:
            each = [describe(name).passes(own, slots, layers) for name, own in settings.get("members", {}).items()]
            return sum(forward for forward, _ in each), sum(backward for _, backward in each)
        names = {**settings, "slots": slots, "layers": layers}
        forward, backward = (eval(formula, {"__builtins__": {}}, names) for formula in self.formulas)
        return forward, backward

    def predicts(self, settings: Mapping) -> bool:
        """Whether scoring predicts the classes of the rows it meets: it takes `seen`, or one of its members does."""
        if self.made_of_others:
            return any(describe(name).predicts(own) for name, own in settings.get("members", {}).items())
        # Accuracy is never measured with rounded weights.
        return self.takes("seen") and settings.get("precision", "float32") == "float32"


@cache
def describe(name: str) -> Description:
    """The criterion called `name`, read off its source: importing it would import torch."""
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
    """All criteria."""
    return sorted(path.stem for path in FOLDER.glob("[!_]*.py") if imports.constant(path, "PRUNE", None))


def load(name: str) -> ModuleType:
    """The criterion called `name`, imported alone so that a rule can declare it alone."""
    return importlib.import_module(f"{__name__}.{name}")


def modules(name: str, settings: Mapping) -> list[str]:
    """The modules that a score loads by name: its own, and those of a hybrid's members."""
    return [f"{__name__}.{score}" for score in (name, *settings.get("members", {}))]
