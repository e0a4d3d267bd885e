"""Magnitude: the l2 norms of a head's blocks of W_Q, W_K, W_V and W_O, summed. No data is needed.

For a neuron the blocks are its rows of the projections up and its column of the projection down. Biases are left out,
as in Gnorm.
"""

from __future__ import annotations

import torch
from torch import nn

from gnorm.engine.batches import Batch
from gnorm.models.slots import SlotMap

PRUNE = "lowest"
PASSES = ("0", "0")
UNITS = ("heads", "neurons")


@torch.no_grad()
def score(model: nn.Module, heads: SlotMap, batches: list[Batch]) -> torch.Tensor:
    kept = heads.kept(model)
    total = torch.zeros(heads.shape, dtype=torch.float64)
    for row in range(len(heads.blocks)):
        for part in heads.parts if kept[row].any() else ():
            total[row, kept[row]] += heads.of_slots(model, row, part).double().norm(dim=(1, 2)).cpu()
    return total
