"""Hybrid: a weighted sum, or a product, of the ranks that other criteria give the heads.

The lowest score has rank 1; equal scores share the mean of their ranks. `combine: sum` adds weight * rank,
`combine: product` multiplies rank ** weight. A negative weight reverses a criterion, as for entropy, where
high means unimportant. Criteria that can share a pass do.

All members read the rows that the hybrid is given. So `entropy` in a hybrid is that of the calibration rows,
even where a suite gives the criterion `entropy` rows of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from gnorm.engine.batches import Batch
from gnorm.engine.passes import Seen
from gnorm.models.slots import SlotMap
from gnorm.scores.together import of_all

PRUNE = "lowest"
UNITS = ("heads", "neurons")  # as far as its members have them


def score(
    model: nn.Module,
    heads: SlotMap,
    batches: list[Batch],
    of: Mapping[str, float],
    combine: str = "sum",
    members: Mapping[str, dict] | None = None,
    seed: int = 0,
    seen: Seen | None = None,
    taken: Mapping[str, tuple[dict, torch.Tensor]] | None = None,
) -> torch.Tensor:
    """Combine the ranks of the criteria; `of` has the weight of each, `members` the settings of each.

    `taken` has scores of this model on these rows, with their settings: members with equal settings reuse them.
    """
    wanted = {name: (members or {}).get(name, {}) for name in of}
    scored = {name: score for name, (settings, score) in (taken or {}).items() if wanted.get(name) == settings}
    untaken = {name: settings for name, settings in wanted.items() if name not in scored}
    scored |= of_all(model, heads, batches, untaken, seed, seen)
    kept = heads.kept(model)
    result = torch.zeros(heads.shape, dtype=torch.float64)
    result[kept] = 0.0 if combine == "sum" else 1.0
    for name in of:
        ranks = rank(scored[name][kept])
        if combine == "sum":
            result[kept] += of[name] * ranks
        else:
            result[kept] *= ranks ** of[name]
    return result


def rank(values: torch.Tensor) -> torch.Tensor:
    """Rank values, 1 for the lowest; equal values share the mean of their ranks."""
    _, place, equal = values.unique(return_inverse=True, return_counts=True)
    below = equal.cumsum(0) - equal
    return (below + (equal.double() + 1) / 2)[place]
