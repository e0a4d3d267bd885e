"""The pruning loop: score, choose, prune, evaluate, record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from gnorm import surgery
from gnorm.evaluate import Accuracy, Evaluation
from gnorm.heads import HeadMap
from gnorm.surgery import Slot

Scorer = Callable[[nn.Module], torch.Tensor]


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
    heads_left: int  # tied heads counted in every layer
    parameters: int
    seconds: float


@dataclass(frozen=True)
class Stop:
    """When a trajectory ends; by default at the last head."""

    heads: int | None = None  # at most so many heads pruned
    fraction: float | None = None  # ... or this share of them
    accuracy_drop: float | None = None  # once accuracy has fallen by more than this

    def reached(self, first: Step, now: Step, next_heads: int) -> bool:
        """Whether to end before pruning `next_heads` more."""
        pruned = first.heads_left - now.heads_left + next_heads
        # Shares and drops are rounded: what equals the bound must not pass it by an ulp.
        slack = 1e-9
        return (
            (self.heads is not None and pruned > self.heads)
            or (self.fraction is not None and pruned > self.fraction * first.heads_left + slack)
            or (self.accuracy_drop is not None and first.accuracy - now.accuracy > self.accuracy_drop + slack)
        )


def choose(score: torch.Tensor, kept: torch.Tensor, prune: str) -> Slot:
    """The kept slot with the lowest or highest score; ties go to the lowest (layer, head)."""
    unwanted = float("inf") if prune == "lowest" else float("-inf")
    candidates = torch.where(kept, score, torch.full_like(score, unwanted)).flatten()
    best = candidates.min() if prune == "lowest" else candidates.max()
    index = int(((candidates == best) & kept.flatten()).nonzero()[0])
    return index // score.shape[1], index % score.shape[1]


def follow(
    model: nn.Module,
    heads: HeadMap,
    evaluation: Evaluation,
    score: Scorer,
    prune: str = "lowest",
    rescore: str | int = "every_step",
    stop: Stop | None = None,
) -> Iterator[tuple[Step, torch.Tensor | None]]:
    """Prune `model` head by head; each step comes with the scores if they were taken anew."""
    stop = stop or Stop()
    every = {"every_step": 1, "never": None}.get(rescore, rescore)
    began = time.monotonic()
    first = now = record(model, heads, evaluation, 0, None, None, began)
    yield now, None
    scores = None
    while heads.kept(model).any():
        began = time.monotonic()
        fresh = scores is None or (every is not None and now.step % every == 0)
        if fresh:
            scores = score(model)
        slot = choose(scores, heads.kept(model), prune)
        if stop.reached(first, now, len(heads.blocks[slot[0]].layers)):
            return
        surgery.prune(model, heads, [slot])
        now = record(model, heads, evaluation, now.step + 1, slot, scores[slot].item(), began)
        yield now, scores.clone() if fresh else None


def record(
    model: nn.Module,
    heads: HeadMap,
    evaluation: Evaluation,
    step: int,
    slot: Slot | None,
    score: float | None,
    began: float,
) -> Step:
    changed = min(heads.blocks[slot[0]].layers) if slot else 0
    measured = evaluation.accuracy(model, changed)
    return Step(
        step=step,
        layer=slot[0] if slot else None,
        head=slot[1] if slot else None,
        score=score,
        accuracy=measured.value,
        correct=measured.correct,
        evaluated=measured.evaluated,
        heads_left=heads.left(model),
        parameters=sum(p.numel() for p in model.parameters()),
        seconds=round(time.monotonic() - began, 4),
    )


def replay(
    model: nn.Module, heads: HeadMap, evaluation: Evaluation, order: Sequence[Slot], levels: Sequence[int]
) -> Iterator[tuple[int, Accuracy]]:
    """Prune in a given order; accuracy only when as many slots are gone as a level says."""
    done = changed = 0
    for level in levels:
        if level > done:
            surgery.prune(model, heads, order[done:level])
            changed = min(min(heads.blocks[row].layers) for row, _ in order[done:level])
            done = level
        yield done, evaluation.accuracy(model, changed)
