"""Objectives that are differentiated or compared: one number per row.

A classifier has one vector of logits per row, a language model one per token. The loss of a language model's row is the
mean over the tokens that another one follows, and its norm is that of all logits. Padding counts in neither.
"""

from __future__ import annotations

import torch
from torch import nn

from gnorm.data.rows import NO_CLASS
from gnorm.engine.batches import Batch
from gnorm.errors import UserError


def of_rows(logits: torch.Tensor, batch: Batch, objective: str) -> torch.Tensor:
    """Each row's objective; a row without a label has no loss, and gets 0."""
    if objective == "logit_norm":
        return _real(logits, batch).flatten(1).norm(dim=-1)
    loss = nn.functional.cross_entropy(
        logits.flatten(0, -2), batch.labels.flatten(), ignore_index=NO_CLASS, reduction="none"
    )
    if batch.labels.dim() > 1:
        counted = (batch.labels != NO_CLASS).sum(1).clamp_min(1)
        loss = loss.view_as(batch.labels).sum(1) / counted
    if objective == "task_loss":
        return loss
    if objective == "label_probability":
        return torch.where(labelled(batch), torch.exp(-loss), 0.0)
    raise ValueError(f"there is no objective {objective!r}")


def of_batch(logits: torch.Tensor, batch: Batch, objective: str) -> torch.Tensor:
    """The batch as one long row, as the authors' notebooks take it."""
    return _real(logits, batch).norm() if objective == "logit_norm" else of_rows(logits, batch, objective).sum()


def labelled(batch: Batch) -> torch.Tensor:
    """Mark the rows that have a label to predict."""
    return (batch.labels != NO_CLASS).view(len(batch.labels), -1).any(1)


def weights(batch: Batch, objective: str) -> torch.Tensor:
    """How often each row of a batch counts: rows without a label count only where the objective needs none."""
    return batch.weights if objective == "logit_norm" else batch.weights * labelled(batch)


def _real(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Logits with zeros for padding."""
    return logits if batch.labels.dim() == 1 else logits.masked_fill(~batch.mask.bool().unsqueeze(-1), 0)


class Mean:
    """A weighted mean over the rows of all batches, in float64; only `value` copies it to the host."""

    def __init__(self):
        self.total = self.rows = 0.0

    def add(self, weights: torch.Tensor, values: torch.Tensor, rows: torch.Tensor | None = None) -> None:
        """Add `values`, rows x ...; they count for `rows` rows, by default the sum of the weights."""
        self.total = self.total + torch.einsum("b,b...->...", weights, values)
        self.rows = self.rows + (weights.sum() if rows is None else rows)

    def value(self) -> torch.Tensor:
        total = torch.as_tensor(self.total, dtype=torch.float64)
        rows = torch.as_tensor(self.rows, dtype=torch.float64)
        sums, rows = torch.cat([total.flatten(), rows.view(1)]).cpu().split([total.numel(), 1])  # the host waits once
        if not rows:
            raise UserError(
                "no calibration row has a class of the model, so none has a loss: take more rows, or other classes"
            )
        return (sums / rows).view(total.shape)
