"""Gradient: the mean gradient norms of a head's Q, K, V and O blocks, summed (Sentinel-AI's criterion).

Norms are taken sentence by sentence as in Gnorm, by default of the task loss. The block of O is columns of the
output projection: with inputs Z_h (T x w) and output gradients G (T x d) its gradient is G^T Z_h, the form of
the other three with inputs and gradients exchanged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from gnorm.engine.batches import Batch
from gnorm.engine.passes import SCALE, Reading, Seen, read
from gnorm.models.heads import HeadMap
from gnorm.models.slots import places_of
from gnorm.scores.gnorm import block_norms, squared_norms

PRUNE = "lowest"
PASSES = ("1", "1")


def score(
    model: nn.Module, heads: HeadMap, batches: list[Batch], objective: str = "task_loss", seen: Seen | None = None
) -> torch.Tensor:
    return read(model, heads, batches, {"gradient": reading(objective)}, seen)["gradient"]


def reading(objective: str = "task_loss") -> Reading:
    def norms(qkv, output):
        return torch.cat([qkv, output.unsqueeze(1)], dim=1).sqrt()

    return Reading((block_norms, output_norms), norms, lambda mean: mean.sum(0), objective)


@contextmanager
def output_norms(model: nn.Module, heads: HeadMap, batch: Batch) -> Iterator[torch.Tensor]:
    """Squared norms of the gradients of O, rows x slots; tied layers add up before the norm."""
    kept = heads.kept(model)
    real = batch.mask.unsqueeze(-1).to(model.dtype)
    squared = torch.zeros(len(batch.labels), *heads.shape, dtype=torch.float64, device=model.device)
    pairs: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = defaultdict(list)  # (G, Z) of each run of a block

    def watch(row: int):
        columns = places_of(kept[row], model.device)

        def record(_module, args, output):
            inputs = args[0].detach()

            def arrived(gradient):
                pairs[row].append((gradient * real, inputs))
                if len(pairs[row]) == len(heads.blocks[row].layers):
                    g, z = (torch.cat(runs, dim=1) for runs in zip(*pairs.pop(row), strict=True))
                    squared[:, row, columns] = squared_norms(g, [z], [heads.width])[0] / SCALE**2

            output.register_hook(arrived)

        return record

    handles = [
        model.get_submodule(block.output).register_forward_hook(watch(row))
        for row, block in enumerate(heads.blocks)
        if kept[row].any()
    ]
    try:
        yield squared
    finally:
        for handle in handles:
            handle.remove()
