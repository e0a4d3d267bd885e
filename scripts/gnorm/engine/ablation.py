"""Losses of a batch with heads switched off, one set of heads after another."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from gnorm.engine import objectives
from gnorm.engine.batches import Batch
from gnorm.engine.finite import Checks
from gnorm.models.slots import LayerOutput, SlotMap, as_evaluated, reused
from gnorm.models.surgery import Slot, gated


class Ablation:
    """Gates of a batch, and the loss of each row with them.

    A call runs only the layers from the lowest one whose gates differ from the last call's.
    """

    def __init__(self, model: nn.Module, heads: SlotMap, batch: Batch, checks: Checks):
        self.model, self.heads, self.batch, self.checks = model, heads, batch.to(model.device), checks
        untied = heads.shape[0] == heads.layers and heads.layer_names
        self.kept_layers = tuple(range(heads.layers - 1)) if untied else ()
        self.stored: dict[int, LayerOutput] = {}  # layer -> its output
        self.off: frozenset[Slot] = frozenset()

    @torch.inference_mode()
    def losses(self, off: Iterable[Slot]) -> torch.Tensor:
        """Each row's loss with the slots `off` gated to zero, in float64; 0 for rows without a class.

        `checks` see whether the logits are finite.
        """
        off = frozenset(off)
        changed = min((min(self.heads.blocks[row].layers) for row, _ in off ^ self.off), default=self.heads.layers)
        self.stored = {layer: output for layer, output in self.stored.items() if layer < changed}
        self.off = off
        reuse = reused(self.model, self.heads, self.stored, self.kept_layers)
        with as_evaluated(self.model), gated(self.model, self.heads, off), reuse:
            logits = self.model(**self.batch.inputs).logits
        self.checks.logits(self.batch, logits)
        return objectives.of_rows(logits.double(), self.batch, "task_loss")


def slots_left(model: nn.Module, heads: SlotMap) -> list[Slot]:
    return [(row, head) for row, head in heads.kept(model).nonzero().tolist()]
