"""The pruning loop: score, choose, prune, evaluate, record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import torch
from torch import nn

from gnorm.engine.evaluate import Accuracy, Evaluation
from gnorm.engine.metrics import ByRow, Predictions
from gnorm.models import surgery
from gnorm.models.accounting import count
from gnorm.models.slots import SlotMap
from gnorm.models.surgery import Slot
from gnorm.pruning.rescoring import due, most

# The relative error of float32 on trained weights: scores that are closer may change places with the batch size.
NEAR = 1e-4

# Returns scores of the model's heads, and predictions made on the way (see `Evaluation.accuracy`).
Scorer = Callable[[nn.Module], tuple[torch.Tensor, Mapping[int, Predictions]]]


@dataclass(frozen=True)
class Step:
    """The model after `step` prunings; step 0 is the unpruned model."""

    step: int
    layer: int | None
    head: int | None
    score: float | None
    accuracy: float
    correct: int
    evaluated: int
    heads_pruned: int  # tied heads counted in every layer
    heads_left: int
    parameters: int
    seconds: float  # of pruning, scoring the model that is left, and evaluating it
    metrics: dict[str, float] = field(default_factory=dict)  # beside the accuracy
    by_row: ByRow | None = field(default=None, compare=False, repr=False)  # None if an interrupted run measured it

    @property
    def plain(self) -> dict:
        """The step without what was answered on each row."""
        values = asdict(replace(self, by_row=None))
        del values["by_row"]
        return values

    @property
    def columns(self) -> dict:
        """Make the step a row of a table."""
        values = self.plain
        return values | values.pop("metrics")


@dataclass(frozen=True)
class Stop:
    """The condition that ends a trajectory; by default the last head."""

    heads: int | None = None  # at most this many heads are pruned
    fraction: float | None = None  # at most this share of them is pruned
    accuracy_drop: float | None = None  # it ends once accuracy has fallen by more than this

    def enough(self, pruned: int, total: int) -> bool:
        """Whether `pruned` heads of `total` would be too many."""
        return pruned > most(total, self.heads, self.fraction)

    def fallen(self, drop: float) -> bool:
        """Whether accuracy has fallen by more than allowed."""
        return self.accuracy_drop is not None and drop > self.accuracy_drop + 1e-9  # a rounded drop may be equal


def choose(score: torch.Tensor, kept: torch.Tensor, prune: str) -> Slot:
    """Choose the kept slot with the lowest or highest score; ties go to the lowest (layer, head)."""
    unwanted = float("inf") if prune == "lowest" else float("-inf")
    candidates = torch.where(kept, score, torch.full_like(score, unwanted)).flatten()
    best = candidates.min() if prune == "lowest" else candidates.max()
    index = int(((candidates == best) & kept.flatten()).nonzero()[0])
    return index // score.shape[1], index % score.shape[1]


def near_ties(
    steps: Sequence[tuple[Step, torch.Tensor | None]], prune: str = "lowest", closer: float = NEAR
) -> list[tuple[int, Slot, Slot, float]]:
    """List (step, pruned slot, runner-up, relative gap of their scores) of every close choice."""
    ties, scores, kept = [], None, None
    for step, rescored in steps:
        if scores is not None:
            slot = (step.layer, step.head)
            kept[slot] = False
            if kept.any():
                other = choose(scores, kept, prune)
                a, b = scores[slot].item(), scores[other].item()
                gap = abs(a - b) / max(abs(a), abs(b), 1e-300)
                if gap < closer:
                    ties.append((step.step, slot, other, gap))
        if rescored is not None:
            scores = rescored
            kept = torch.ones_like(rescored, dtype=torch.bool) if kept is None else kept
    return ties


def follow(
    model: nn.Module,
    heads: SlotMap,
    evaluation: Evaluation,
    score: Scorer,
    prune: str = "lowest",
    rescore: str | int = "every_step",
    stop: Stop | None = None,
    past: Sequence[tuple[Step, torch.Tensor | None]] = (),
) -> Iterator[tuple[Step, torch.Tensor | None]]:
    """Prune `model` head by head; yields each step with the scores of the model it leaves, if it was rescored.

    `past` has the steps that an interrupted run got from here: the unpruned `model` loses those heads at once, and
    the run continues as if it had not been interrupted.
    """
    stop = stop or Stop()
    least = min(len(block.layers) for block in heads.blocks)  # heads that any step prunes
    first, now = (past[0][0], past[-1][0]) if past else (None, None)
    scores = next((rescored for _, rescored in reversed(past) if rescored is not None), None)
    gone = [(step.layer, step.head) for step, _ in past[1:]]
    if gone:
        surgery.prune(model, heads, gone)
    changed = lowest_layer(heads, gone)
    while True:
        slot = value = None
        if now:  # choose the next slot
            pruned = heads.total - heads.left(model)
            if scores is None or not heads.kept(model).any() or stop.fallen(first.accuracy - now.accuracy):
                return
            slot = choose(scores, heads.kept(model), prune)
            if stop.enough(pruned + len(heads.blocks[slot[0]].layers), heads.total):
                return
            value = scores[slot].item()
        began, step = time.monotonic(), now.step + 1 if now else 0
        if slot:
            surgery.prune(model, heads, [slot])
            changed = lowest_layer(heads, [slot], changed)
        # Score before evaluating: a scoring pass over evaluation rows predicts their classes.
        pruned = heads.total - heads.left(model)
        rescored, known = None, {}
        wanted = scores is None or due(rescore, step)
        if wanted and heads.kept(model).any() and not stop.enough(pruned + least, heads.total):
            rescored, known = score(model)
        measured = evaluation.accuracy(model, changed, known)
        now = Step(
            step=step,
            layer=slot[0] if slot else None,
            head=slot[1] if slot else None,
            score=value,
            accuracy=measured.value,
            correct=measured.correct,
            evaluated=measured.evaluated,
            heads_pruned=pruned,
            heads_left=heads.total - pruned,
            parameters=count(model),
            seconds=round(time.monotonic() - began, 4),
            metrics=measured.metrics,
            by_row=measured.by_row,
        )
        first, changed = first or now, None
        scores = scores if rescored is None else rescored
        yield now, rescored


def lowest_layer(heads: SlotMap, slots: Sequence[Slot], least: int | None = None) -> int | None:
    """Find the lowest layer that pruning `slots` changes, or `least` if that is lower; None if nothing changes."""
    layers = [min(heads.blocks[row].layers) for row, _ in slots]
    return min(layers + ([] if least is None else [least]), default=None)


def replay(
    model: nn.Module,
    heads: SlotMap,
    evaluation: Evaluation,
    order: Sequence[Slot],
    levels: Sequence[int],
    past: int = 0,
) -> Iterator[tuple[int, Accuracy]]:
    """Prune in a given order and measure accuracy at `levels`, the numbers of pruned slots.

    An interrupted run has measured the first `past` levels.
    """
    done = levels[past - 1] if past else 0
    changed = lowest_layer(heads, order[:done])
    if done:
        surgery.prune(model, heads, order[:done])
    for level in levels[past:]:
        if level > done:
            surgery.prune(model, heads, order[done:level])
            changed = lowest_layer(heads, order[done:level], changed)
            done = level
        yield done, evaluation.accuracy(model, changed)
        changed = None
