"""Accuracy and other metrics, batched by length, without running again the layers that pruning left alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn

from gnorm.data.rows import NO_CLASS
from gnorm.engine import metrics
from gnorm.engine.batches import Batch, each, kernels_broke, out_of_memory
from gnorm.engine.finite import NotFinite, broken_logits
from gnorm.engine.metrics import ByRow, Predictions, smallest
from gnorm.logs import log
from gnorm.models.slots import LayerOutput, SlotMap, as_evaluated, reused


@dataclass(frozen=True)
class Accuracy:
    correct: int
    evaluated: int  # rows, or of language models the tokens that follow one
    metrics: dict[str, float] = field(default_factory=dict)  # others, by name
    by_row: ByRow | None = field(default=None, compare=False, repr=False)

    @property
    def value(self) -> float:
        return self.correct / self.evaluated


def predicted(batch: Batch, logits: torch.Tensor) -> torch.Tensor:
    """Label, prediction, loss, confidence and whether the logits are finite, for every label of a batch, row after row.

    Returns 5 x labels on the device, in float64, which holds all of them exactly. See `Gathered`.
    """
    logits, labels = logits.detach(), batch.labels.to(logits.device)
    logarithms = logits.log_softmax(-1)
    losses = -logarithms.gather(-1, labels.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    parts = labels, logits.argmax(-1), losses, logarithms.amax(-1).exp(), logits.isfinite().all(-1)
    return torch.stack([part.flatten().double() for part in parts])


class Gathered:
    """The predictions of a model, which stay on the device until all batches are done and are then copied once."""

    def __init__(self, model: nn.Module, heads: SlotMap):
        self.model, self.heads = model, heads
        self.parts: list[tuple[Batch, torch.Tensor]] = []
        self.dtype = np.float32

    def add(self, batch: Batch, logits: torch.Tensor) -> None:
        self.parts.append((batch, predicted(batch, logits)))
        self.dtype = np.float64 if logits.dtype == torch.float64 else np.float32

    def by_batch(self) -> list[Predictions]:
        """Predictions of each batch, row after row; labels that no class covers are left out."""
        return [self._predictions(values) for _, values in self._arrived()]

    def by_row(self) -> dict[int, Predictions]:
        """Predictions by the row's position."""
        predictions = {}
        for batch, values in self._arrived():
            counts = (values[0] != NO_CLASS).reshape(len(batch.positions), -1).sum(1)
            predictions |= zip(batch.positions.tolist(), self._predictions(values).split(counts), strict=True)
        return predictions

    def _arrived(self) -> Iterator[tuple[Batch, np.ndarray]]:
        values = torch.cat([part for _, part in self.parts], dim=1).cpu().numpy() if self.parts else np.zeros((5, 0))
        ends = np.cumsum([part.shape[1] for _, part in self.parts])
        for (batch, _), own in zip(self.parts, np.split(values, ends, axis=1)[:-1], strict=True):
            if not own[4].all():  # the class of a NaN would count like any other
                at = int(own[4].argmin()) * len(batch.positions) // own.shape[1]
                raise NotFinite(broken_logits(self.model, self.heads, batch, at))
            yield batch, own

    def _predictions(self, values: np.ndarray) -> Predictions:
        label, answer, loss, confidence, _ = values[:, values[0] != NO_CLASS]
        classes = [part.astype(np.int64) for part in (label, answer)]
        return Predictions(*classes, *(part.astype(self.dtype) for part in (loss, confidence)))


class Rows:
    """The rows of batches in the order of their list, and which of them each prediction belongs to.

    Batches that are cut in two when memory runs out keep the order of their predictions.
    """

    def __init__(self, batches: Sequence[Batch]):
        batches = [batch.source or batch for batch in batches]  # on the host, if they came from there
        labels = [batch.labels.cpu().numpy() for batch in batches]
        order = np.concatenate([batch.positions.numpy() for batch in batches]).argsort(kind="stable")
        answers = np.concatenate([(own.reshape(len(own), -1) != NO_CLASS).sum(1) for own in labels])
        self.row = np.concatenate([batch.rows.numpy() for batch in batches])[order]
        self.answers = smallest(answers[order])
        self.label = smallest(np.concatenate(labels)[order]) if labels[0].ndim == 1 else None
        self.of_prediction = np.repeat(order.argsort(), answers)

    def answered(self, predictions: Predictions) -> ByRow:
        """Arrange predictions, which come batch after batch, by row."""

        def total(values: np.ndarray) -> np.ndarray:
            return np.bincount(self.of_prediction, values, len(self.row))

        def placed(values: np.ndarray) -> np.ndarray:
            arranged = np.zeros(len(self.row), values.dtype)
            arranged[self.of_prediction] = values
            return arranged

        right = smallest(total(predictions.correct).astype(np.int64))
        by_row = ByRow(self.row, self.answers, right, total(predictions.loss).astype(np.float32))
        if self.label is None:
            return by_row
        confidence = placed(predictions.confidence).astype(np.float32)
        return replace(
            by_row, label=self.label, predicted=smallest(placed(predictions.predicted)), confidence=confidence
        )


class Evaluation:
    """Measures one model again and again while it loses heads.

    Layers below a pruned head give the same outputs as before, so these are kept where they fit into
    `memory_mb`: all of them, or every second, third, ... Rows must have a class. `wanted` names the metrics
    that are computed beside the accuracy.
    """

    def __init__(self, batches: list[Batch], heads: SlotMap, memory_mb: int = 0, wanted: Iterable[str] = ()):
        self.batches, self.heads, self.wanted = batches, heads, metrics.at_steps(wanted)
        self.rows, self.kept_layers = Rows(batches), self._affordable(memory_mb)
        self.stored: WeakKeyDictionary[Batch, dict[int, LayerOutput]] = WeakKeyDictionary()  # layer -> its output
        self.measured: dict[frozenset, Accuracy] = {}  # by the heads that are gone

    def copy(self) -> Evaluation:
        """Copy it for another path from the same model, which does not repeat what has been measured."""
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

        `known` holds predictions of this same model by the row's position; batches of known rows are not run.
        """
        known = known or {}
        if changed is not None:
            for stored in self.stored.values():
                for layer in [layer for layer in stored if layer >= changed]:
                    del stored[layer]
        gone = frozenset(map(tuple, (~self.heads.kept(model)).nonzero().tolist()))
        if gone in self.measured:
            return self.measured[gone]

        new = Gathered(model, self.heads)

        def predict(batch: Batch) -> Predictions | None:
            """Return a batch's known predictions; for any other batch run the model and add them to `new`."""
            positions = batch.positions.tolist()
            if all(position in known for position in positions):
                return Predictions.join(known[position] for position in positions)
            try:
                return self._predict(model, batch, new)
            except (RuntimeError, MemoryError) as error:
                if not (self.kept_layers and out_of_memory(error)) or kernels_broke(error):
                    raise
            log.warning("out of memory: outputs of layers are not kept any longer")
            self.kept_layers = ()
            self.stored.clear()
            return self._predict(model, batch, new)

        with torch.inference_mode():
            parts = [of_batch for _, of_batch in each(self.batches, predict)]
        ran = iter(new.by_batch())
        joined = Predictions.join(next(ran) if part is None else part for part in parts)
        values = metrics.evaluate(self.wanted, joined)
        self.measured[gone] = Accuracy(int(joined.correct.sum()), len(joined.label), values, self.rows.answered(joined))
        return self.measured[gone]

    def _predict(self, model: nn.Module, batch: Batch, new: Gathered) -> None:
        stored = self.stored.setdefault(batch, {})
        with as_evaluated(model), reused(model, self.heads, stored, self.kept_layers):
            logits = model(**batch.to(model.device).inputs).logits
        new.add(batch, logits)
