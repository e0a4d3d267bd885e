"""Rows as padded tensors: sorted by length, as many rows to a batch as a token budget holds."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import torch

from gnorm.data.rows import NO_CLASS
from gnorm.devices import free_memory, repeatably
from gnorm.errors import UserError
from gnorm.logs import log

if TYPE_CHECKING:  # importing transformers takes seconds, and some rules only need the type
    from transformers import PreTrainedTokenizerBase


# Part of oneDNN's message where a kernel's code finds no memory. Its code generator remembers the error, so every
# later kernel fails too, even if memory is free again.
NO_KERNEL = "create a primitive"

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)  # compared by identity, so that a batch can be a key
class Batch:
    inputs: dict[str, torch.Tensor]
    labels: torch.Tensor  # to be predicted: a row's class, or for language models the token after each token
    positions: torch.Tensor  # of its rows in the list that was given
    weights: torch.Tensor  # how often each row counts (bootstrap resamples repeat rows)
    rows: torch.Tensor  # their numbers in the dataset, or positions for rows without a number
    source: Batch | None = None  # the batch on another device that this is a copy of

    @torch.inference_mode(False)
    def to(self, device: torch.device) -> Batch:
        """Copy it to a device; positions and rows stay on the host, where they are read."""
        if self.labels.device == device:
            return self
        return replace(
            self,
            inputs={name: value.to(device) for name, value in self.inputs.items()},
            labels=self.labels.to(device),
            weights=self.weights.to(device),
            source=self.source or self,
        )

    @property
    def bytes(self) -> int:
        """The memory it takes on a device."""
        moved = (*self.inputs.values(), self.labels, self.weights)
        return sum(tensor.numel() * tensor.element_size() for tensor in moved)

    @property
    def mask(self) -> torch.Tensor:
        """1 for tokens, 0 for padding."""
        return self.inputs["attention_mask"]

    @property
    def tokens(self) -> int:
        """The number of tokens, padding included."""
        return self.mask.numel()

    def halves(self) -> list[Batch]:
        """Its first and second half, each cut to its own longest row."""
        middle = -(-len(self.labels) // 2)
        return [self._part(slice(middle)), self._part(slice(middle, None))]

    def row(self, at: int) -> Batch:
        """One row alone."""
        return self._part(slice(at, at + 1))

    def _part(self, rows: slice) -> Batch:
        used = self.mask[rows].any(0).nonzero().flatten()
        columns = slice(int(used[0]), int(used[-1]) + 1)  # padding may be on either side
        return Batch(
            inputs={name: value[rows, columns] for name, value in self.inputs.items()},
            labels=self.labels[rows, columns] if self.labels.dim() > 1 else self.labels[rows],
            positions=self.positions[rows],
            weights=self.weights[rows],
            rows=self.rows[rows],
        )


def resident(batches: list[Batch], device: torch.device) -> list[Batch]:
    """Copy batches to a device once for the whole job, unless they would take a tenth of its free memory."""
    if device.type == "cuda" and sum(batch.bytes for batch in batches) > free_memory(device) / 10:
        log.info("%d batches are copied to %s each time: they take too much of its memory", len(batches), device)
        return batches
    return batches if device.type == "cpu" else [batch.to(device) for batch in batches]


def check(rows: Sequence[dict], what: str = "rows") -> None:
    """Raise a `UserError` about a row that is not of the form that datasets have."""
    form = "a row has `text`, `pair` (a second text, or None) and `label` (the number of its class, or None)"
    for at, row in enumerate(rows):
        lacking = [key for key in ("text", "pair", "label") if key not in row] if isinstance(row, dict) else ["text"]
        where = f"{what}: row {at if lacking else row.get('row', at)}"
        if lacking:
            raise UserError(f"{where} has no `{lacking[0]}`: {form}")
        if wrong := [key for key in ("text", "pair") if not isinstance(row[key], str | None if key == "pair" else str)]:
            raise UserError(f"{where} has the {wrong[0]} {row[wrong[0]]!r}: {form}")
        if row["label"] is not None and (not hasattr(row["label"], "__index__") or row["label"] < NO_CLASS):
            raise UserError(f"{where} has the label {row['label']!r}: {form}")
        if (row["label"] is None) != (rows[0]["label"] is None):
            raise UserError(f"{where} and the first row: either all have a label, or none has")


def encode(tokenizer: PreTrainedTokenizerBase, rows: Sequence[dict], what: str = "rows") -> list[dict]:
    """Token ids of each row, cut to what the model can read."""
    check(rows, what)
    encoded, cut = [], 0
    for row in rows:
        texts = (row["text"],) if row["pair"] is None else (row["text"], row["pair"])
        encoded.append(dict(tokenizer(*texts, truncation=True)))
        if not encoded[-1]["input_ids"]:
            raise UserError(f"{what}: row {row.get('row', len(encoded) - 1)} has no token to read; leave it out")
        if len(encoded[-1]["input_ids"]) >= tokenizer.model_max_length:  # full: was it longer?
            cut += len(tokenizer(*texts, verbose=False)["input_ids"]) > tokenizer.model_max_length
    if cut:
        log.warning(
            "%s: %d of %d are longer than %d tokens and are cut", what, cut, len(rows), tokenizer.model_max_length
        )
    return encoded


def make(
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[dict],
    tokens: int,
    weights: Sequence[int] | None = None,
    what: str = "rows",
) -> list[Batch]:
    """Batches of `rows`, shortest rows first, each of at most `tokens` tokens with padding.

    A row longer than the budget gets a batch of its own; a row of weight 0 is left out.
    """
    weights = [1] * len(rows) if weights is None else weights
    used = [i for i, weight in enumerate(weights) if weight]
    encoded = dict(zip(used, encode(tokenizer, [rows[i] for i in used], what), strict=True))
    lengths = {i: len(encoded[i]["input_ids"]) for i in used}
    cuts = _cut(sorted(used, key=lambda i: (lengths[i], i)), lengths, tokens)
    return [_batch(tokenizer, rows, encoded, chosen, weights) for chosen in cuts]


def in_order(tokenizer: PreTrainedTokenizerBase, rows: Sequence[dict], size: int, what: str = "rows") -> list[Batch]:
    """Batches of `size` rows as they come, whatever their length."""
    encoded, weights = encode(tokenizer, rows, what), [1] * len(rows)
    cuts = [list(range(first, min(first + size, len(rows)))) for first in range(0, len(rows), size)]
    return [_batch(tokenizer, rows, encoded, chosen, weights) for chosen in cuts]


def labels(rows: Sequence[dict], inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The class of each row; for rows without one, the token after each token, or `NO_CLASS` where none follows."""
    if rows[0]["label"] is not None:
        return torch.tensor([row["label"] for row in rows])
    following = torch.full_like(inputs["input_ids"], NO_CLASS)
    both = (inputs["attention_mask"][:, 1:] * inputs["attention_mask"][:, :-1]).bool()
    following[:, :-1][both] = inputs["input_ids"][:, 1:][both]
    return following


@torch.inference_mode(False)  # so that a backward pass may keep its tensors, whatever mode the caller is in
def _batch(tokenizer, rows, encoded, chosen: list[int], weights: Sequence[int]) -> Batch:
    # On the right whatever the tokenizer prefers: tokens then have the positions they have alone.
    inputs = dict(tokenizer.pad([encoded[i] for i in chosen], return_tensors="pt", padding_side="right"))
    return Batch(
        inputs=inputs,
        labels=labels([rows[i] for i in chosen], inputs),
        positions=torch.tensor(chosen),
        weights=torch.tensor([weights[i] for i in chosen], dtype=torch.float64),
        rows=torch.tensor([rows[i].get("row", i) for i in chosen]),
    )


def _cut(order: list[int], lengths: dict[int, int], tokens: int) -> list[list[int]]:
    """Cut `order`, shortest rows first, into consecutive parts that cost least in all.

    A part costs its tokens, padding included, plus a 32nd of the budget for starting it.
    """
    best, cut = [0.0], [0]  # for the first n rows: least cost, and where their last part begins
    for end in range(1, len(order) + 1):
        longest, options = lengths[order[end - 1]], []
        for first in range(end - 1, -1, -1):
            if first < end - 1 and longest * (end - first) > tokens:
                break
            options.append((best[first] + longest * (end - first) + tokens / 32, first))
        cost, first = min(options)
        best.append(cost)
        cut.append(first)
    parts, end = [], len(order)
    while end:
        parts.append(order[cut[end] : end])
        end = cut[end]
    return parts[::-1]


def each(batches: list[Batch], work: Callable[[Batch], Result]) -> Iterator[tuple[Batch, Result]]:
    """Yield every batch with the result of `work`.

    Where memory runs out the token budget is halved: the batch, and later ones over the new budget, are cut in two
    and stay so in `batches`. Where oneDNN breaks, the batch is tried again without it.
    """
    budget, i = None, 0
    while i < len(batches):
        batch = batches[i]
        if budget is None or batch.tokens <= budget or len(batch.labels) == 1:
            try:
                result = repeatably(lambda batch=batch: work(batch))
            except Exception as error:
                if not out_of_memory(error):
                    raise
                broken = kernels_broke(error)
                if len(batch.labels) == 1 and not broken:
                    message = f"a single row of {batch.tokens} tokens does not fit into memory ({error})"
                    raise UserError(message) from error
            else:
                yield batch, result
                i += 1
                continue
            # Outside of the `except` block the failed attempt's tensors are freed.
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            if broken:
                torch.backends.mkldnn.enabled = False
                log.warning("oneDNN found no memory for a kernel and makes no more: torch goes on without it")
                continue
            budget = batch.tokens // 2
            log.warning("out of memory with %d tokens: the budget is halved to %d", batch.tokens, budget)
        batches[i : i + 1] = batch.halves()


def kernels_broke(error: Exception) -> bool:
    """Whether oneDNN had no memory for a kernel; it does not recover from this."""
    return NO_KERNEL in str(error) and torch.backends.mkldnn.enabled


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory ran out, on a GPU or on the CPU."""
    # The third and fourth come from cuBLAS, the last two from oneDNN.
    phrases = (
        "can't allocate memory",
        "bad_alloc",
        "ALLOC_FAILED",
        "CUBLAS_STATUS_NOT_INITIALIZED",
        "out of memory",
        NO_KERNEL,
        "create a memory",
    )
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in phrases)
    )
