"""Mask gradient: the mean over sentences of |d loss / d gate| (Michel et al. 2019).

The gate multiplies a head's output and is 1. `normalize` divides a layer's scores by their l2 norm.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from gnorm.engine.batches import Batch
from gnorm.engine.passes import Reading, Seen, gate_gradients, read
from gnorm.models.slots import SlotMap

PRUNE = "lowest"
PASSES = ("1", "1")
UNITS = ("heads", "neurons")


def score(
    model: nn.Module, heads: SlotMap, batches: list[Batch], normalize: bool = False, seen: Seen | None = None
) -> torch.Tensor:
    return read(model, heads, batches, {"mask_gradient": reading(normalize)}, seen)["mask_gradient"]


def reading(normalize: bool = False) -> Reading:
    return Reading((gate_gradients,), torch.abs, partial(by_layer, normalize=normalize))


def by_layer(mean: torch.Tensor, normalize: bool) -> torch.Tensor:
    if not normalize:
        return mean
    norms = mean.norm(dim=1, keepdim=True)
    return mean / torch.where(norms > 0, norms, 1.0)  # a layer without heads has none
