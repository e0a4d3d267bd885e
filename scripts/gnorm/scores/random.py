"""Random scores: a uniformly random order of heads."""

from __future__ import annotations

import random as _random

import torch
from torch import nn

from gnorm.engine.batches import Batch
from gnorm.models.slots import SlotMap

PRUNE = "lowest"
PASSES = ("0", "0")
UNITS = ("heads", "neurons")


def score(model: nn.Module, heads: SlotMap, batches: list[Batch], seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(heads.shape, generator=generator, dtype=torch.float64) * heads.kept(model)


def order(slots: list[tuple[int, int]], strategy: str, seed: int, trial: int) -> list[tuple[int, int]]:
    """The slots in the random order of one trial."""
    return _random.Random(f"{strategy} {seed} {trial}").sample(slots, len(slots))
