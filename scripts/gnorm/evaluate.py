"""Accuracy, batched by length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from gnorm.batches import Batch


@dataclass(frozen=True)
class Accuracy:
    correct: int
    evaluated: int

    @property
    def value(self) -> float:
        return self.correct / self.evaluated


def accuracy(model: nn.Module, batches: Iterable[Batch]) -> Accuracy:
    """How many rows get their class; every row must have one."""
    correct = evaluated = 0
    with torch.inference_mode():
        for batch in batches:
            batch = batch.to(model.device)
            predicted = model(**batch.inputs).logits.argmax(-1)
            correct += (predicted == batch.labels).sum().item()
            evaluated += len(batch.labels)
    return Accuracy(correct, evaluated)
