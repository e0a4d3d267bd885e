"""Random trials: prune in random orders, evaluate at the levels of the suite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gnorm.engine.evaluate import Evaluation
from gnorm.logs import log, progress
from gnorm.models.accounting import count
from gnorm.models.neurons import slot_map
from gnorm.pruning import parts
from gnorm.pruning.trajectory import replay
from gnorm.resume import State
from gnorm.scores.random import order
from gnorm.statistics.curves import counts
from gnorm.statistics.outcomes import Outcomes
from gnorm.workbench import Workbench


def measure(
    bench: Workbench,
    *,
    strategy: str,
    unit: Mapping[str, Any],
    trials: Sequence[int],
    levels: int,
    seed: int,
    state: State,
    folder: str | Path,
) -> Iterator[tuple[pd.DataFrame, Outcomes]]:
    """Yield the table and the outcomes of each trial as soon as it is over.

    `unit` says whether heads or neurons are pruned; `folder` may hold trials that other jobs have made.
    """
    slots = slot_map(bench.model, bench.heads, unit)
    places = [(row, column) for row in range(slots.shape[0]) for column in range(slots.shape[1])]
    wanted, finished, start_from = counts(len(places), levels), parts.finished(state, folder, "trial"), None
    for trial in progress(trials, "trial", len(trials)):
        if trial in finished:
            yield finished[trial].table, finished[trial].outcomes
            continue
        own = state.part(f"trial{trial}")
        stored, answered = own.load(), parts.Answered(own, trial)
        rows = stored if stored and answered.restore(len(stored)) else []
        if rows:
            log.info("trial %d goes on after %d heads pruned", trial, rows[-1]["heads_pruned"])
        if len(rows) < len(wanted):
            if start_from is None:
                # Its stored outputs share the memory with those of a trial.
                start_from = Evaluation(bench.batches("evaluation"), slots, bench.reuse_mb // 2, bench.metrics)
                start_from.accuracy(bench.model)
            drawn, model = order(places, strategy, seed, trial), bench.copy()
            written = " ".join(f"{layer}.{head}" for layer, head in drawn)
            for _, measured in replay(model, slots, start_from.copy(), drawn, wanted, len(rows)):
                answered.add(measured.by_row, slots.total - slots.left(model), slots.total)
                rows.append(
                    {
                        "trial": trial,
                        "heads_pruned": slots.total - slots.left(model),
                        "heads_left": slots.left(model),
                        "accuracy": measured.value,
                        "correct": measured.correct,
                        "evaluated": measured.evaluated,
                        "parameters": count(model),
                        "order": written,
                        **measured.metrics,
                    }
                )
                own.save(rows)
        yield parts.as_text(pd.DataFrame(rows)), answered.outcomes
    log.info("%d trials of %d levels", len(trials), levels)
