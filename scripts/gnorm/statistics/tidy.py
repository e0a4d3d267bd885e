"""The tidy table: every step of every trajectory and every level of every random trial, a row each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from gnorm.engine.metrics import at_steps
from gnorm.statistics.columns import COLUMNS, STEPS, TRIALS, read_table


def labelled(path: str | Path, numbers: Sequence[str], **labels: str | int) -> pd.DataFrame:
    """A table of trajectories or trials, with what its path says of it."""
    table = read_table(path, numbers)
    table["fraction_pruned"] = table["heads_pruned"] / (table["heads_pruned"] + table["heads_left"])
    return table.assign(**labels)


def joined(
    *,
    trajectories: Iterable[tuple[str, str, str]],
    random: Iterable[tuple],
    units: Mapping[str, str],
    metrics: Sequence[str],
) -> pd.DataFrame:
    """`trajectories` and `random` have (file, model, strategy) of each, at least one of them.

    Random trials on the model of a run have that run as a fourth; others are of no run.
    """
    parts = [labelled(path, STEPS, model=model, strategy=strategy) for path, model, strategy in trajectories]
    for path, model, strategy, *of_run in random:
        parts.append(
            labelled(path, TRIALS, model=model, strategy=strategy, **dict(zip(("run",), of_run, strict=False)))
        )
    table = pd.concat(parts, ignore_index=True)
    table = table.assign(unit=table["strategy"].map(units)).reindex(columns=[*COLUMNS, *at_steps(metrics)])
    return table.astype(dict.fromkeys(("run", "trial", "step", "layer", "head"), "Int64"))
