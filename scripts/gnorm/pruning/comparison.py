"""Criteria side by side: scores of the unpruned model, and how well their orders prune."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from gnorm import scores
from gnorm.engine.evaluate import Accuracy, Evaluation
from gnorm.logs import log, progress
from gnorm.models.gates import Slot
from gnorm.pruning import parts
from gnorm.pruning.scoring import Source, source
from gnorm.pruning.trajectory import replay
from gnorm.resume import State
from gnorm.scores import together
from gnorm.statistics import outcomes
from gnorm.statistics.curves import counts
from gnorm.statistics.outcomes import Outcomes
from gnorm.workbench import Workbench

Criteria = Mapping[str, Mapping[str, Any]]  # settings by name


def scored_together(costs: Mapping[str, tuple[int, int]]) -> list[list[str]]:
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
    """Scores, standard errors, accuracies and outcomes at the levels in one run, by criterion, saved as they come."""

    def __init__(self, state: State, run: int):
        self.state, self.run, self.answered = state, run, {}
        stored = state.load()
        if stored and not all(self._answered(name).restore(len(curve)) for name, curve in stored["curves"].items()):
            stored, self.answered = None, {}
        self.value = stored or {"scores": {}, "errors": {}, "curves": {}}
        self.scores, self.errors, self.curves = (self.value[key] for key in ("scores", "errors", "curves"))

    def _answered(self, name: str) -> parts.Answered:
        if name not in self.answered:
            self.answered[name] = parts.Answered(self.state, self.run, f"{name}.rows")
        return self.answered[name]

    def scored(self, own: Mapping[str, torch.Tensor], errors: Mapping[str, torch.Tensor]) -> None:
        self.scores |= own
        self.errors |= errors
        self.state.save(self.value)

    def measured(self, name: str, pruned: int, heads: int, accuracy: Accuracy) -> None:
        self._answered(name).add(accuracy.by_row, pruned, heads)
        self.curves.setdefault(name, []).append((pruned, accuracy.value))
        self.state.save(self.value)

    def outcomes(self, criteria: Iterable[str]) -> Outcomes:
        """The outcomes of a finished run."""
        return outcomes.join([self.answered[name].outcomes.ordered_by(name) for name in criteria])


def score_part(
    bench: Workbench, origin: Source, part: Sequence[str], criteria: Criteria, done: Progress
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Compute the scores of a part of the criteria in one run, and standard errors where a criterion has them.

    Criteria that read the same batches share passes, and can use each other's scores.
    """
    own, errors = {}, {}
    sources = {name: source(name, settings, origin.shards) for name, settings in criteria.items()}
    shared: dict[str, list[str]] = defaultdict(list)  # by the rows that they read

    def score(wanted: Criteria, taken: Mapping | None = None) -> dict[str, torch.Tensor]:
        batches = origin.batches(*next(iter(wanted.items())))
        return together.of_all(bench.model, bench.heads, batches, wanted, origin.seed + origin.run, None, errors, taken)

    for name in part:
        if sources[name] == "shards":
            own[name] = origin.stored(name)
        elif sources[name] == "own":
            own |= score({name: criteria[name]})
        else:
            shared[scores.describe(name).rows].append(name)
    for rows, names in shared.items():
        scored = {
            name: (settings, done.scores[name])
            for name, settings in criteria.items()
            if sources[name] == "shared" and scores.describe(name).rows == rows and name in done.scores
        }
        own |= score({name: criteria[name] for name in names}, scored)
    return own, errors


def costs(bench: Workbench, criteria: Criteria) -> pd.DataFrame:
    """Make the table of passes that each criterion takes alone."""
    each = [(name, *together.cost_of_all(bench.model, bench.heads, {name: own})) for name, own in criteria.items()]
    return pd.DataFrame(each, columns=["criterion", "forward", "backward"])


def compare(
    bench: Workbench,
    *,
    criteria: Criteria,
    levels: int,
    runs: Sequence[int],
    seed: int,
    state: State,
    folder: str | Path,
    shards: Sequence[str | Path] = (),
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame, Outcomes]]:
    """Yield the curves, the scores and the outcomes of each run. `folder` may hold runs that other jobs have made."""
    heads, start_from = bench.heads, None
    finished = parts.finished(state, folder, "run")
    wanted = counts(heads.shape[0] * heads.shape[1], levels)
    groups = scored_together({name: passes for name, *passes in costs(bench, criteria).itertuples(index=False)})
    for run in runs:
        if run in finished:
            curves, answered, signature = finished[run]
            yield curves, parts.of_each(signature.with_suffix(".scores.csv"), "run")[run], answered
            continue
        done = Progress(state.part(f"run{run}"), run)
        if done.scores:
            levels_done = sum(map(len, done.curves.values()))
            log.info("run %d goes on after %d scores and %d levels", run, len(done.scores), levels_done)
        if start_from is None:
            start_from = Evaluation(bench.batches("evaluation"), heads, bench.reuse_mb // 2)  # beside those of an order
            start_from.accuracy(bench.model)
        for group in progress(groups, f"run {run}: scores", len(groups)):
            if any(name not in done.scores for name in group):
                done.scored(*score_part(bench, Source(bench, shards, run, seed), group, criteria, done))
            for name in group:
                order = in_order(done.scores[name], scores.describe(name).prune)
                past, model = len(done.curves.get(name, [])), bench.copy()
                for _, measured in replay(model, heads, start_from.copy(), order, wanted, past):
                    done.measured(name, heads.total - heads.left(model), heads.total, measured)
        yield *tables(run, criteria, done, heads.total), done.outcomes(criteria)
    log.info("%d criteria, %d runs, %d levels", len(criteria), len(runs), levels)


def tables(run: int, criteria: Iterable[str], done: Progress, heads: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make the curves and the scores of a finished run."""
    curves, scored = [], []
    for name in criteria:
        curves += [(name, run, n, n / heads, accuracy) for n, accuracy in done.curves[name]]
        values, errors = done.scores[name], done.errors.get(name)
        for rank, slot in enumerate(in_order(values, scores.describe(name).prune), start=1):
            error = None if errors is None else errors[slot].item()
            scored.append((name, run, *slot, values[slot].item(), error, rank))
    return (
        parts.as_text(pd.DataFrame(curves, columns="criterion run heads_pruned fraction_pruned accuracy".split())),
        parts.as_text(pd.DataFrame(scored, columns="criterion run layer head score error rank".split())),
    )
