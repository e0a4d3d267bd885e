"""What is differentiated or compared: one number a row."""

from __future__ import annotations

import torch
from torch import nn

from gnorm.batches import Batch
from gnorm.rows import NO_CLASS


def of_rows(logits: torch.Tensor, labels: torch.Tensor, objective: str) -> torch.Tensor:
    """Each row's objective; a row without a class has no loss and no label, and gets 0."""
    if objective == "logit_norm":
        return logits.norm(dim=-1)
    loss = nn.functional.cross_entropy(logits, labels, ignore_index=NO_CLASS, reduction="none")
    if objective == "task_loss":
        return loss
    if objective == "label_probability":
        return torch.where(labels == NO_CLASS, 0.0, torch.exp(-loss))
    raise ValueError(f"there is no objective {objective!r}")


def weights(batch: Batch, objective: str) -> torch.Tensor:
    """How often each row of a batch counts; without a class it counts only where none is needed."""
    return batch.weights if objective == "logit_norm" else batch.weights * (batch.labels != NO_CLASS)
