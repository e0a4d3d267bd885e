"""Shapley values of the heads, in loss: the mean change when a head is added, over all orders of adding heads.

Estimated from `permutations` random orders: heads are switched off one after the other, and a head's value is the
mean rise of the loss at its turn. The values of all heads add up to the loss without heads minus the loss of
the model. The standard error is that of the mean over orders, on the given rows.
"""

from __future__ import annotations

import torch
from torch import nn

from gnorm.engine import objectives
from gnorm.engine.ablation import Ablation, slots_left
from gnorm.engine.batches import Batch, each
from gnorm.engine.finite import Checks
from gnorm.engine.passes import finite
from gnorm.logs import log
from gnorm.models.slots import SlotMap
from gnorm.scores.random import order

PRUNE = "lowest"
PASSES = ("2 + permutations * (slots - 1)", "0")  # every order has the same first and last model
UNITS = ("heads", "neurons")


def score(
    model: nn.Module,
    heads: SlotMap,
    batches: list[Batch],
    permutations: int = 10,
    seed: int = 0,
    errors: dict[str, torch.Tensor] | None = None,
) -> torch.Tensor:
    rises = samples(model, heads, batches, permutations, seed)
    error = rises.std(0) / permutations**0.5
    kept = heads.kept(model)
    if kept.any():
        log.info(
            "shapley: %d orders, standard error of a value %.2g (median) and %.2g (largest), values spread by %.2g",
            permutations,
            error[kept].median().item(),
            error[kept].max().item(),
            rises.mean(0)[kept].std(unbiased=False).item(),
        )
    if errors is not None:
        errors["shapley"] = error
    return finite(rises.mean(0), "shapley", heads)


def samples(model: nn.Module, heads: SlotMap, batches: list[Batch], permutations: int, seed: int) -> torch.Tensor:
    """The rise of the mean loss at each head's turn, orders x slots."""
    slots = slots_left(model, heads)
    orders = [order(slots, "shapley", seed, i) for i in range(permutations)]

    checks, mean = Checks(model, heads), objectives.Mean()

    def rises(batch: Batch) -> torch.Tensor:
        """Rise of each row's loss at each turn: rows x orders x turns."""
        ablation = Ablation(model, heads, batch, checks)
        ends = [ablation.losses(slots), ablation.losses([])]
        walks = []
        for drawn in orders:
            between = [ablation.losses(drawn[:turn]) for turn in range(1, len(drawn))]
            walks.append(torch.stack([ends[1], *between, ends[0]], dim=1).diff(dim=1))
        return torch.stack(walks, dim=1)

    result = torch.zeros(permutations, *heads.shape, dtype=torch.float64)
    if not slots:
        return result
    for batch, row_rises in each(batches, rises):
        mean.add(objectives.weights(batch, "task_loss").to(model.device), row_rises)
    checks.look()
    values = mean.value()
    for i, drawn in enumerate(orders):
        layer, head = torch.tensor(drawn).T
        result[i, layer, head] = values[i]
    return result
