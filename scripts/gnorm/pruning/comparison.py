"""Criteria side by side: scores of the unpruned model, and how well their orders prune."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from gnorm import scores
from gnorm.engine.evaluate import Evaluation
from gnorm.logs import log, progress
from gnorm.models.gates import Slot
from gnorm.pruning.scoring import Source, source
from gnorm.pruning.trajectory import replay
from gnorm.resume import State
from gnorm.scores import together
from gnorm.statistics.curves import counts
from gnorm.workbench import Workbench

Criteria = Mapping[str, Mapping[str, Any]]  # settings by name


def parts(costs: Mapping[str, tuple[int, int]]) -> list[list[str]]:
    """Group criteria to score together: all that need at most one pass, which they may share, and each other one.

    Hybrids run last and reuse their members' scores.
    """
    cheap = [name for name, passes in costs.items() if max(passes) <= 1]
    others = [name for name in costs if name not in cheap]
    others.sort(key=lambda name: scores.describe(name).takes("taken"))
    return [part for part in (cheap, *([name] for name in others)) if part]


def in_order(values: torch.Tensor, prune: str) -> list[Slot]:
    """Sort slots from the first to prune to the last; ties go to the lowest (layer, head)."""
    sign = 1 if prune == "lowest" else -1
    slots = [(row, head) for row in range(values.shape[0]) for head in range(values.shape[1])]
    return sorted(slots, key=lambda slot: (sign * values[slot].item(), slot))


class Progress:
    """Scores, standard errors and accuracies at the levels, by run and criterion, saved as they come."""

    def __init__(self, state: State):
        self.state = state
        self.value = state.load() or {"scores": {}, "errors": {}, "curves": {}}
        self.scores, self.errors, self.curves = (self.value[key] for key in ("scores", "errors", "curves"))

    def scored(self, run: int, own: Mapping[str, torch.Tensor], errors: Mapping[str, torch.Tensor]) -> None:
        self.scores |= {(run, name): values for name, values in own.items()}
        self.errors |= {(run, name): values for name, values in errors.items()}
        self.state.save(self.value)

    def measured(self, run: int, name: str, pruned: int, accuracy: float) -> None:
        self.curves.setdefault((run, name), []).append((pruned, accuracy))
        self.state.save(self.value)


def score_part(
    bench: Workbench, origin: Source, part: Sequence[str], criteria: Criteria, done: Progress
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Compute the scores of a part of the criteria in one run, and standard errors where a criterion has them.

    Criteria that read the same batches share passes, and can use each other's scores.
    """
    own, errors, run = {}, {}, origin.run
    sources = {name: source(name, settings, origin.shards) for name, settings in criteria.items()}
    shared: dict[str, list[str]] = defaultdict(list)  # by the rows that they read

    def score(wanted: Criteria, taken: Mapping | None = None) -> dict[str, torch.Tensor]:
        batches = origin.batches(*next(iter(wanted.items())))
        return together.of_all(bench.model, bench.heads, batches, wanted, origin.seed + run, None, errors, taken)

    for name in part:
        if sources[name] == "shards":
            own[name] = origin.stored(name)
        elif sources[name] == "own":
            own |= score({name: criteria[name]})
        else:
            shared[scores.describe(name).rows].append(name)
    for rows, names in shared.items():
        scored = {
            name: (settings, done.scores[run, name])
            for name, settings in criteria.items()
            if sources[name] == "shared" and scores.describe(name).rows == rows and (run, name) in done.scores
        }
        own |= score({name: criteria[name] for name in names}, scored)
    return own, errors


def compare(
    bench: Workbench,
    *,
    criteria: Criteria,
    levels: int,
    runs: int,
    seed: int,
    state: State,
    shards: Sequence[str | Path] = (),
) -> dict[str, pd.DataFrame]:
    """Make the tables `scores`, `curves` and `costs`."""
    done, heads = Progress(state), bench.heads
    if done.scores:
        log.info("goes on after %d scores and %d levels", len(done.scores), sum(map(len, done.curves.values())))
    costs = {name: together.cost_of_all(bench.model, heads, {name: own}) for name, own in criteria.items()}
    start_from = Evaluation(bench.batches("evaluation"), heads, bench.reuse_mb // 2)  # beside those of an order
    start_from.accuracy(bench.model)
    wanted = counts(heads.shape[0] * heads.shape[1], levels)
    todo = [(run, part) for run in range(runs) for part in parts(costs)]
    for run, part in progress(todo, "scores", len(todo)):
        if any((run, name) not in done.scores for name in part):
            done.scored(run, *score_part(bench, Source(bench, shards, run, seed), part, criteria, done))
        for name in part:
            order = in_order(done.scores[run, name], scores.describe(name).prune)
            past, model = len(done.curves.get((run, name), [])), bench.copy()
            for _, measured in replay(model, heads, start_from.copy(), order, wanted, past):
                done.measured(run, name, heads.total - heads.left(model), measured.value)
    log.info("%d criteria, %d runs, %d levels", len(criteria), runs, levels)
    each = [(run, name) for run in range(runs) for name in criteria]
    tables = {
        "scores": (_scores(done, each), "criterion run layer head score error rank"),
        "curves": (
            [(name, run, n, n / heads.total, accuracy) for run, name in each for n, accuracy in done.curves[run, name]],
            "criterion run heads_pruned fraction_pruned accuracy",
        ),
        "costs": ([(name, *passes) for name, passes in costs.items()], "criterion forward backward"),
    }
    return {what: pd.DataFrame(rows, columns=columns.split()) for what, (rows, columns) in tables.items()}


def _scores(done: Progress, each: Sequence[tuple[int, str]]) -> Iterator[tuple]:
    for run, name in each:
        values, errors = done.scores[run, name], done.errors.get((run, name))
        for rank, slot in enumerate(in_order(values, scores.describe(name).prune), start=1):
            error = None if errors is None else errors[slot].item()
            yield name, run, *slot, values[slot].item(), error, rank
