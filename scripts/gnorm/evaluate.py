"""Accuracy and other metrics, batched by length, without running again the layers that pruning left alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from torch import nn

from gnorm import metrics
from gnorm.batches import Batch, each, kernels_broke, out_of_memory
from gnorm.heads import SlotMap
from gnorm.logs import log
from gnorm.metrics import Predictions
from gnorm.numbers import check_logits
from gnorm.rows import NO_CLASS


@dataclass(frozen=True)
class Accuracy:
    correct: int
    evaluated: int  # rows, or of language models the tokens that follow one
    metrics: dict[str, float] = field(default_factory=dict)  # others, by name

    @property
    def value(self) -> float:
        return self.correct / self.evaluated


def predictions(batch: Batch, logits: torch.Tensor) -> Predictions:
    """What the model predicts of all labels of a batch, row after row."""
    labels = batch.labels.to(logits.device)
    real = labels != NO_CLASS
    labels, logits = labels[real], logits.detach()[real]
    logarithms = logits.log_softmax(-1)
    losses = -logarithms.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    found = labels, logits.argmax(-1), losses, logarithms.amax(-1).exp()
    return Predictions(*(part.cpu().numpy() for part in found))


def predictions_by_row(batch: Batch, logits: torch.Tensor) -> dict[int, Predictions]:
    """... by the row's position."""
    counts = (batch.labels != NO_CLASS).view(len(batch.labels), -1).sum(1).tolist()
    return dict(zip(batch.positions.tolist(), predictions(batch, logits).split(counts), strict=True))


class Evaluation:
    """Measures one model again and again while it loses heads.

    Layers below a pruned head give what they gave before, so their outputs are kept where they
    fit into `memory_mb`: all of them, or every second, third, ... Rows must have a class. `wanted` are metrics
    to take beside the accuracy.
    """

    def __init__(self, batches: list[Batch], heads: SlotMap, memory_mb: int = 0, wanted: Iterable[str] = ()):
        self.batches, self.heads, self.wanted = batches, heads, metrics.at_steps(wanted)
        self.kept_layers = self._affordable(memory_mb)
        self.stored: WeakKeyDictionary[Batch, dict[int, torch.Tensor]] = WeakKeyDictionary()  # layer -> its output
        self.measured: dict[frozenset, Accuracy] = {}  # by the heads that are gone

    def copy(self) -> Evaluation:
        """For another way from the same model: what has been measured is not measured again."""
        other = copy(self)
        other.stored = WeakKeyDictionary({batch: dict(kept) for batch, kept in self.stored.items()})
        return other

    def _affordable(self, memory_mb: int) -> tuple[int, ...]:
        """Layers whose outputs are kept; none if layers share weights, as pruning changes them all."""
        inner = range(self.heads.layers - 1)
        if not memory_mb or len(self.heads.layer_names) != self.heads.layers or not inner:
            return ()
        tokens = sum(batch.tokens for batch in self.batches)
        each = tokens * self.heads.hidden * 4 / 2**20  # float32
        every = -(-len(inner) * each // memory_mb)
        chosen = tuple(layer for layer in inner if (layer + 1) % every == 0)
        log.info(
            "reuse: outputs of %d of %d layers, %.0f MB of %d", len(chosen), len(inner), len(chosen) * each, memory_mb
        )
        return chosen

    def accuracy(
        self, model: nn.Module, changed: int | None = None, known: Mapping[int, Predictions] | None = None
    ) -> Accuracy:
        """Accuracy now; `changed` is the lowest layer that has changed since the last call, None if none has.

        `known` has what this very model has predicted already, by the row's position; a batch of such rows
        is not run.
        """
        known = known or {}
        if changed is not None:
            for stored in self.stored.values():
                for layer in [layer for layer in stored if layer >= changed]:
                    del stored[layer]
        gone = frozenset(map(tuple, (~self.heads.kept(model)).nonzero().tolist()))
        if gone in self.measured:
            return self.measured[gone]

        def predict(batch: Batch) -> Predictions:
            positions = batch.positions.tolist()
            if all(position in known for position in positions):
                return Predictions.join(known[position] for position in positions)
            try:
                return self._predict(model, batch)
            except (RuntimeError, MemoryError) as error:
                if not (self.kept_layers and out_of_memory(error)) or kernels_broke(error):
                    raise
            log.warning("out of memory: outputs of layers are not kept any longer")
            self.kept_layers = ()
            self.stored.clear()
            return self._predict(model, batch)

        with torch.inference_mode():
            found = Predictions.join(of_batch for _, of_batch in each(self.batches, predict))
        values = metrics.evaluate(self.wanted, found)
        self.measured[gone] = Accuracy(int(found.correct.sum()), len(found.label), values)
        return self.measured[gone]

    def _predict(self, model: nn.Module, batch: Batch) -> Predictions:
        with reused(model, self.heads, self.stored.setdefault(batch, {}), self.kept_layers):
            logits = model(**batch.to(model.device).inputs).logits
        check_logits(model, self.heads, batch, logits)  # the class of a NaN would be counted as any other
        return predictions(batch, logits)


@contextmanager
def reused(
    model: nn.Module, heads: SlotMap, stored: dict[int, torch.Tensor], kept_layers: Sequence[int]
) -> Iterator[None]:
    """Skip the layers up to the last one whose output is in `stored`; keep there what the others give.

    Not for layers that share weights: `kept_layers` must be empty for them.
    """
    last = max(stored, default=-1)
    layers = [model.get_submodule(name) for name in heads.layer_names] if kept_layers else []
    for layer in range(last + 1):
        # Only the last one's output is read; those below pass on what they are given.
        output = stored[layer] if layer == last else None
        layers[layer].forward = lambda hidden, *_a, output=output, **_k: (hidden if output is None else output,)
    handles = [
        layers[layer].register_forward_hook(lambda _m, _a, out, layer=layer: stored.update({layer: out[0]}))
        for layer in kept_layers
        if layer > last
    ]
    try:
        yield
    finally:
        for layer in range(last + 1):
            del layers[layer].forward
        for handle in handles:
            handle.remove()
