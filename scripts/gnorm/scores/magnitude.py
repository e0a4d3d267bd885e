"""Magnitude: the l2 norms of a head's blocks of W_Q, W_K, W_V and W_O, summed. No data is needed.

Biases are left out, as in Gnorm.
"""

from __future__ import annotations

import torch
from torch import nn

from gnorm.batches import Batch
from gnorm.heads import HeadMap

PRUNE = "lowest"
PASSES = ("0", "0")


def score(model: nn.Module, heads: HeadMap, batches: list[Batch]) -> torch.Tensor:
    kept = heads.kept(model)
    total = torch.zeros(heads.shape, dtype=torch.float64)
    for row, block in enumerate(heads.blocks):
        if not kept[row].any():
            continue
        # A head owns rows of Q, K and V, and columns of the output projection.
        weights = [model.get_submodule(name).weight for name in block.projections]
        weights.append(model.get_submodule(block.output).weight.T)
        for weight in weights:
            total[row, kept[row]] += weight.double().unflatten(0, (-1, heads.width)).norm(dim=(1, 2)).cpu()
    return total
