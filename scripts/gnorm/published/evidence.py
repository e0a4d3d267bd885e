"""What a verdict is decided by: the contents of the published files, or those of a run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pandas as pd

from gnorm.published import paper
from gnorm.statistics.estimates import ADD, ENDS, Measure, Measured, Missing, OfCounts, OfRows
from gnorm.statistics.results import Results, curves, of_run_0, total_heads

PRINTED = 0.005 + 1e-9  # half a unit of the second decimal
RUN_POINTS = 1.0  # accuracy of a run of one's own, in points
Curve = tuple[list[float], list[float]]  # fractions, values
NEEDS = ("tidy", "entropy", "gradients", "speeds", "splits")  # of a run


def rows_known(tidy: pd.DataFrame) -> dict[str, int]:
    """On how many rows the paper's models were measured, of those that these curves are of."""
    found = {name: paper.same_model(name, total_heads(tidy, name)) for name in tidy["model"].unique()}
    return {name: reported.rows for name, reported in found.items() if reported}


@dataclass(frozen=True)
class Evidence:
    """The contents of the published files, or of this run; fields without data are empty."""

    tidy: pd.DataFrame
    tolerance: float  # of accuracies, in points
    published: bool = False  # by the authors; how often a run of one's own was repeated is a setting, no evidence
    rows: OfRows | None = None  # what was answered on each row
    known: dict[str, int] = field(default_factory=dict)  # how many rows there were, where that alone is known
    level: float = 0.95  # of intervals
    entropy: dict[str, dict] = field(default_factory=dict)  # diagnostics, by model
    gradients: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    merged: dict[str, dict] = field(default_factory=dict)  # shards against merged files, by model
    splits: dict[str, dict] = field(default_factory=dict)
    speeds: dict[str, pd.DataFrame] = field(default_factory=dict)
    independent: tuple[str, ...] = ()  # models whose every run has trained one of its own

    @classmethod
    def of_run(cls, results: Results, rows: OfRows, independent: Collection[str]) -> Self:
        """The evidence of a finished suite, from what `NEEDS` lists and what was answered on each row."""
        models = results.models
        entropy, speeds = ({model: read(model) for model in models} for read in (results.entropy, results.speeds))
        return cls(
            tidy=results.tidy(),
            tolerance=RUN_POINTS,
            rows=rows,
            level=rows.bootstrap.level,
            entropy={model: diagnostics for model, diagnostics in entropy.items() if diagnostics is not None},
            gradients={model: results.gradients(model) for model in models},
            splits={model: results.splits(model) for model in models},
            speeds={model: table for model, table in speeds.items() if table is not None},
            independent=tuple(independent),
        )

    @classmethod
    def of_published(cls, tidy: pd.DataFrame, merged: pd.DataFrame, level: float) -> Self:
        """The evidence of the authors' files: their accuracies, and their entropies as they were checked."""
        joined = merged.set_index("model").to_dict("index")
        known = rows_known(tidy)
        return cls(tidy, PRINTED, published=True, known=known, level=level, merged=joined)

    def measured(self, model: str, measures: list[Measure]) -> list[Measured]:
        """Estimate measures, by rows where they are known; raises `Missing`."""
        source = self.rows or OfCounts(self.tidy, self.known, self.level)
        return source.measured(model, measures)

    def curves(self, model: str, strategy: str, of: str = "accuracy") -> list[Curve]:
        """List (fractions, values) of each run, or trial of run 0, that prunes all heads and has the metric `of`."""
        if of not in self.tidy:
            return []
        tables = curves(self.tidy, model, strategy)
        if tables and tables[0]["trial"].notna().all():
            tables = of_run_0(tables)
        whole = [c for c in tables if np.isclose(c["fraction_pruned"].iloc[-1], 1) and c[of].notna().all()]
        return [(curve["fraction_pruned"].tolist(), curve[of].tolist()) for curve in whole]

    def need(self, model: str, strategy: str) -> list[Curve]:
        """Get the curves of a strategy that a claim needs; raises `Missing`."""
        if complete := self.curves(model, strategy):
            return complete
        raise Missing((ENDS if curves(self.tidy, model, strategy) else ADD).format(strategy))

    def accuracy(self, model: str, pruned: int) -> float | None:
        """The accuracy of greedy pruning in run 0, in percent."""
        runs = curves(self.tidy, model, "greedy_gnorm")
        if not runs:
            return None
        at = runs[0].set_index("heads_pruned")["accuracy"]
        return 100 * at[pruned] if pruned in at else None

    def models(self, model: str, runs: int) -> int:
        """How many trained models so many runs are of."""
        return runs if model in self.independent else 1

    def guesses(self, models: dict[str, str]) -> list[tuple[str, str]]:
        """List (title, warning) of models that are worse than the most common class before anything is pruned."""
        warnings = []
        for model, title in models.items():
            common = self.splits.get(model, {}).get("majority")
            unpruned = self.tidy[(self.tidy["model"] == model) & (self.tidy["heads_pruned"] == 0)]["accuracy"]
            if common is not None and len(unpruned) and unpruned.iloc[0] < common:
                warning = (
                    f"is right on {unpruned.iloc[0]:.1%} of its evaluation rows before pruning, always "
                    f"answering their most common class on {common:.1%}: what pruning does to it says little. Are "
                    "`classes:` in the order of the model's outputs?"
                )
                warnings.append((title, warning))
        return warnings
