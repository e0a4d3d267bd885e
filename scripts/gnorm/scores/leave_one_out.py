"""Leave one out: the rise of the mean loss when the head's gate is 0.

A harmful head has a negative score.
"""

from __future__ import annotations

import torch
from torch import nn

from gnorm.engine import objectives
from gnorm.engine.ablation import Ablation, slots_left
from gnorm.engine.batches import Batch, each
from gnorm.engine.finite import Checks
from gnorm.engine.passes import finite
from gnorm.models.slots import SlotMap

PRUNE = "lowest"
PASSES = ("1 + slots", "0")  # a pass without a head starts at its layer
UNITS = ("heads", "neurons")


def score(model: nn.Module, heads: SlotMap, batches: list[Batch]) -> torch.Tensor:
    # From the top down, so that the layers below the gated one are always those of the ungated model.
    slots = slots_left(model, heads)[::-1]
    result = torch.zeros(heads.shape, dtype=torch.float64)
    if not slots:
        return result

    checks, mean = Checks(model, heads), objectives.Mean()

    def rises(batch: Batch) -> torch.Tensor:
        """Rise of each row's loss without each slot: rows x slots."""
        ablation = Ablation(model, heads, batch, checks)
        whole = ablation.losses([])
        return torch.stack([ablation.losses([slot]) - whole for slot in slots], dim=1)

    for batch, row_rises in each(batches, rises):
        mean.add(objectives.weights(batch, "task_loss").to(model.device), row_rises)
    checks.look()
    for slot, value in zip(slots, mean.value(), strict=True):
        result[slot] = value
    return finite(result, "leave_one_out", heads)
