"""Generated corpora: seeded stand-ins for the four tasks of the paper, and text for language models.

One module a corpus, found by its file name. Each has `LABELS`, the label names in
class order (a name in `UNSCORED` has no class and is left out of the accuracy; none at all for
language models), and `sample(rng)`, which draws one row as (text, pair or None, label name).
"""

from __future__ import annotations

import importlib
import random
from pathlib import Path
from types import ModuleType

from gnorm.errors import UserError


def names() -> list[str]:
    """The names of all corpora."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))


def load(name: str) -> ModuleType:
    """Import the corpus module called `name` alone, so that a rule can declare it alone."""
    return importlib.import_module(f"{__name__}.{name}")


def draw(name: str, count: int, seed: int) -> list[dict]:
    """Draw `count` rows with distinct texts, with labels in equal shares up to chance."""
    corpus, rng, seen, rows = load(name), random.Random(f"{name} {seed}"), set(), []
    repeats = 0
    while len(rows) < count:
        text, pair, label = corpus.sample(rng)
        if (text, pair) in seen:
            repeats += 1
            if repeats > 20 * count:
                raise UserError(f"rows: the corpus {name} has fewer than {count} different rows; ask for fewer")
            continue
        seen.add((text, pair))
        rows.append({"text": text, "pair": pair, "label_name": label})
    return rows
