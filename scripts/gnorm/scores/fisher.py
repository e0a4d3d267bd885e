"""Fisher: the mean over sentences of (d loss / d gate)^2, the diagonal of the gates' empirical Fisher information."""

from __future__ import annotations

import torch
from torch import nn

from gnorm.engine.batches import Batch
from gnorm.engine.passes import Reading, Seen, gate_gradients, read
from gnorm.models.slots import SlotMap

PRUNE = "lowest"
PASSES = ("1", "1")
UNITS = ("heads", "neurons")


def score(model: nn.Module, heads: SlotMap, batches: list[Batch], seen: Seen | None = None) -> torch.Tensor:
    return read(model, heads, batches, {"fisher": reading()}, seen)["fisher"]


def reading() -> Reading:
    return Reading((gate_gradients,), torch.square)
