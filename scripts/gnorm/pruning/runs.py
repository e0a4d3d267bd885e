"""Trajectories of one strategy, run after run: interrupted runs continue, and finished ones are reused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from gnorm.engine.evaluate import Evaluation
from gnorm.files import load_tensors
from gnorm.logs import log, progress
from gnorm.models.neurons import slot_map
from gnorm.models.slots import SlotMap
from gnorm.pruning import limits, parts
from gnorm.pruning.limits import Size
from gnorm.pruning.scoring import Scorer
from gnorm.pruning.trajectory import Step, Stop, follow, near_ties
from gnorm.resume import State
from gnorm.statistics.outcomes import Outcomes
from gnorm.workbench import Workbench


@dataclass(frozen=True)
class Run:
    """A finished run: its rows of the table, the score matrix of each rescoring that chose a slot, its outcomes."""

    number: int
    table: pd.DataFrame
    scores: torch.Tensor
    outcomes: Outcomes


class Steps:
    """The steps of one run, saved after each."""

    def __init__(self, state: State, number: int):
        self.state, self.number, stored = state, number, state.load()
        self.steps: list[tuple[Step, torch.Tensor | None]] = []
        self.answered, self.over = parts.Answered(state, number), False
        if stored and self.answered.restore(len(stored["steps"])):
            rescored = dict(zip(stored["taken"], stored["scores"], strict=True))
            self.steps = [(Step(**step), rescored.get(i)) for i, step in enumerate(stored["steps"])]
            self.over = stored["over"]

    def add(self, step: Step, rescored: torch.Tensor | None) -> None:
        self.answered.add(step.by_row, step.heads_pruned, step.heads_pruned + step.heads_left)
        self.steps.append((replace(step, by_row=None), rescored))
        self.save()

    def save(self, over: bool = False) -> None:
        self.over = over
        rescored = {i: scores for i, (_, scores) in enumerate(self.steps) if scores is not None}
        self.state.save(
            {
                "steps": [step.plain for step, _ in self.steps],
                "taken": list(rescored),
                "scores": torch.stack(list(rescored.values())) if rescored else torch.zeros(0),
                "over": over,
            }
        )

    def run(self, slots: SlotMap) -> Run:
        """Make the finished run from its steps."""
        # Without the last step's scores, by which nothing was chosen.
        used = [rescored for _, rescored in self.steps[:-1] if rescored is not None]
        table = pd.DataFrame([{"run": self.number} | step.columns for step, _ in self.steps])
        table = parts.as_text(table.astype({"layer": "Int64", "head": "Int64"}))
        scores = torch.stack(used) if used else torch.zeros(0, *slots.shape)
        return Run(self.number, table, scores, self.answered.outcomes)


def prune(
    bench: Workbench,
    *,
    strategy: Mapping[str, Any],
    runs: Sequence[int],
    seed: int,
    stop: Mapping[str, Any],
    state: State,
    folder: str | Path,
    shards: Sequence[str | Path] = (),
) -> Iterator[Run]:
    """Prune by a strategy; yields each run as soon as it is over. `folder` may hold runs that other jobs have made."""
    slots = slot_map(bench.model, bench.heads, strategy)  # heads or neurons
    limits.check_stop(stop, Size.of(slots), slots.unit)
    finished = parts.finished(state, folder, "run")
    start_from = None  # runs that evaluate the same batches start from the same unpruned model
    for run in runs:
        if run in finished:
            table, outcomes, signature = finished[run]
            yield Run(run, table, load_tensors(signature.with_suffix(".scores.pt"))[run], outcomes)
            continue
        steps = Steps(state.part(f"run{run}"), run)
        if steps.steps:
            log.info("run %d goes on after step %d", run, steps.steps[-1][0].step)
        if not steps.over:
            model, score = bench.copy(), Scorer(bench, slots, strategy, run=run, seed=seed, shards=shards)
            score.report_precision(model)
            if score.shared:
                log.info(
                    "run %d: scoring also evaluates %d of %d rows",
                    *(run, len(score.shared), len(bench.rows("evaluation"))),
                )
            if score.shared or start_from is None:
                room = bench.reuse_mb // 2 if len(runs) > 1 else bench.reuse_mb
                start_from = Evaluation(score.evaluation_batches(bench), slots, room, bench.metrics)
                if not score.shared:
                    start_from.accuracy(model)
            followed = follow(
                model,
                slots,
                start_from.copy(),
                score,
                strategy["prune"],
                strategy["rescore"],
                Stop(**stop),
                steps.steps[:],
            )
            left = slots.shape[0] * slots.shape[1] + 1 - len(steps.steps)
            for step, rescored in progress(followed, f"run {run}: step", left):
                steps.add(step, rescored)
            steps.save(over=True)
            report(run, steps.steps, strategy["prune"])
        yield steps.run(slots)


def report(run: int, steps: Sequence[tuple[Step, torch.Tensor | None]], prune: str) -> None:
    """Log how a run ended, and choices that another batch size or number of threads may change."""
    close = near_ties(steps, prune)
    if close:
        shown = "; ".join(f"step {step}: {a} before {b}, {gap:.1e} apart" for step, a, b, gap in close[:5])
        log.warning(
            "run %d: %d of %d choices are near-ties, closer than float32 computes (%s%s)",
            run,
            len(close),
            len(steps) - 1,
            shown,
            "; ..." if len(close) > 5 else "",
        )
    first, last = steps[0][0], steps[-1][0]
    log.info("run %d: accuracy %.3f -> %.3f in %d steps", run, first.accuracy, last.accuracy, len(steps) - 1)
