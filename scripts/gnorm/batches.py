"""Rows as padded tensors: sorted by length, as many rows to a batch as a token budget holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:  # importing transformers takes seconds, and some rules only need the type
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Batch:
    inputs: dict[str, torch.Tensor]
    labels: torch.Tensor
    positions: torch.Tensor  # of its rows in the list that was given
    weights: torch.Tensor  # how often each row counts (bootstrap resamples repeat rows)

    def to(self, device: torch.device) -> Batch:
        return replace(
            self,
            inputs={name: value.to(device) for name, value in self.inputs.items()},
            labels=self.labels.to(device),
            weights=self.weights.to(device),
        )

    @property
    def mask(self) -> torch.Tensor:
        """1 for tokens, 0 for padding."""
        return self.inputs["attention_mask"]


def encode(tokenizer: PreTrainedTokenizerBase, rows: Sequence[dict]) -> list[dict]:
    """Token ids of each row, cut to what the model can read."""
    encoded = []
    for row in rows:
        pair = (row["pair"],) if row["pair"] is not None else ()
        encoded.append(dict(tokenizer(row["text"], *pair, truncation=True)))
    return encoded


def make(
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[dict],
    tokens: int,
    weights: Sequence[int] | None = None,
) -> list[Batch]:
    """Batches of `rows`, shortest rows first, each of at most `tokens` tokens with padding.

    A row longer than the budget gets a batch of its own; a row of weight 0 is left out.
    """
    encoded = encode(tokenizer, rows)
    order = sorted(range(len(rows)), key=lambda i: (len(encoded[i]["input_ids"]), i))
    weights = [1] * len(rows) if weights is None else weights
    used = [i for i in order if weights[i]]
    cuts = _cut(used, [len(e["input_ids"]) for e in encoded], tokens)
    return [_batch(tokenizer, rows, encoded, chosen, weights) for chosen in cuts]


def in_order(tokenizer: PreTrainedTokenizerBase, rows: Sequence[dict], size: int) -> list[Batch]:
    """Batches of `size` rows as they come, whatever their length."""
    encoded, weights = encode(tokenizer, rows), [1] * len(rows)
    cuts = [list(range(first, min(first + size, len(rows)))) for first in range(0, len(rows), size)]
    return [_batch(tokenizer, rows, encoded, chosen, weights) for chosen in cuts]


def _batch(tokenizer, rows, encoded, chosen: list[int], weights: Sequence[int]) -> Batch:
    return Batch(
        inputs=dict(tokenizer.pad([encoded[i] for i in chosen], return_tensors="pt")),
        labels=torch.tensor([rows[i]["label"] for i in chosen]),
        positions=torch.tensor(chosen),
        weights=torch.tensor([weights[i] for i in chosen], dtype=torch.float64),
    )


def _cut(order: list[int], lengths: list[int], tokens: int) -> Iterator[list[int]]:
    chosen: list[int] = []
    for i in order:
        if chosen and lengths[i] * (len(chosen) + 1) > tokens:
            yield chosen
            chosen = []
        chosen.append(i)
    if chosen:
        yield chosen
