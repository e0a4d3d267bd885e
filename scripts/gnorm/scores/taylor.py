"""Taylor: the mean over sentences of |A . dL/dA|, on the attention matrix A (the paper's Eq. 8).

A head's output A V is linear in A, so the inner product A . dL/dA is d loss / d gate. As the equation stands,
it is the mask gradient without normalization, computed from the attention matrix. `absolute: entries` takes the
absolute value before the sum, so that entries of opposite effect do not cancel out.
"""

from __future__ import annotations

import torch
from torch import nn

from gnorm.engine.batches import Batch
from gnorm.engine.passes import Reading, Seen, attention_products, read
from gnorm.models.heads import HeadMap

PRUNE = "lowest"
PASSES = ("1", "1")
ATTENTION = "backward"


def score(
    model: nn.Module, heads: HeadMap, batches: list[Batch], absolute: str = "product", seen: Seen | None = None
) -> torch.Tensor:
    return read(model, heads, batches, {"taylor": reading(absolute)}, seen)["taylor"]


def reading(absolute: str = "product") -> Reading:
    which = ("product", "entries").index(absolute)
    return Reading((attention_products,), lambda products: products[:, which].abs())
