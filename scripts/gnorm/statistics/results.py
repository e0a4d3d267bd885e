"""What a finished suite holds, as tables and figures read it; imports no torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd

from gnorm import layout
from gnorm.files import read_json
from gnorm.statistics.columns import read_csv


class Results:
    """Reads only what a table or figure lists in `NEEDS` or `OPTIONAL`: the rule has just those as inputs.

    Curves are those of one `unit`: a pruned head and a pruned group of neurons are not the same thing. `files` are
    the inputs: an optional file that is not among them is stale, and ignored. `outcomes` are the files of what was
    answered on each row, for `gnorm.statistics.estimates`; published results have none.
    """

    def __init__(
        self,
        root: str | Path,
        models: dict[str, str],
        strategies: dict[str, dict],
        needs: Sequence[str],
        unit: str = "heads",
        files: Collection[str] | None = None,
        outcomes: Mapping[str, list[tuple]] | None = None,
    ):
        self.root = Path(root)
        self.models = models  # name in file names -> title
        self.strategies = strategies
        self.needs = needs
        self.unit = unit
        self.files = files
        self.outcomes = outcomes or {}

    @classmethod
    def of_module(
        cls,
        module: ModuleType,
        *,
        root: str | Path,
        models: dict[str, str],
        strategies: dict[str, dict],
        files: Collection[str] | None = None,
        outcomes: Mapping[str, list[tuple]] | None = None,
    ) -> Results:
        """What a table or figure reads."""
        needs = (*module.NEEDS, *getattr(module, "OPTIONAL", ()))
        return cls(root, models, strategies, needs, getattr(module, "UNIT", "heads"), files, outcomes)

    def _path(self, template: str, **values: str) -> Path:
        if not any(template in layout.NEEDS[need] for need in self.needs):
            raise KeyError(f"{template!r} is read but not listed in NEEDS or OPTIONAL")
        return layout.within(self.root, template, **values)

    def _if_made(self, template: str, **values: str) -> Path | None:
        path = self._path(template, **values)
        return path if (path.exists() if self.files is None else str(path) in self.files) else None

    def tidy(self) -> pd.DataFrame:
        table = read_csv(self._path(layout.TIDY))
        return table[table["unit"] == self.unit]

    def heads(self, model: str) -> dict:
        return read_json(self._path(layout.HEADS, model=model))

    def splits(self, model: str) -> dict:
        return read_json(self._path(layout.SPLITS, model=model))

    def baselines(self, model: str) -> dict | None:
        """What needs no model, beside a model that is trained here."""
        path = self._if_made(layout.BASELINES, model=model)
        return read_json(path) if path else None

    def controls(self, model: str) -> dict:
        return read_json(self._path(layout.CONTROLS, model=model))

    def solution(self, model: str) -> dict:
        return read_json(self._path(layout.SOLUTION, model=model))

    def mask(self, model: str) -> np.ndarray:
        """1 = kept, slots."""
        return np.loadtxt(self._path(layout.MASK, model=model), delimiter=",", ndmin=2, dtype=int)

    def modules(self, model: str) -> pd.DataFrame:
        return read_csv(self._path(layout.PARAMETERS, model=model))

    def gradients(self, model: str) -> dict[str, np.ndarray]:
        with np.load(self._path(layout.GRADIENT_CHANGE, model=model), allow_pickle=False) as stored:
            return dict(stored)

    def scores(self, model: str) -> pd.DataFrame:
        """Scores and ranks by the criteria that are compared."""
        return read_csv(self._path(layout.CRITERIA_SCORES, model=model))

    def score_curves(self, model: str) -> pd.DataFrame:
        """Accuracies in the orders of these criteria."""
        return read_csv(self._path(layout.CRITERIA_CURVES, model=model))

    def score_costs(self, model: str) -> pd.DataFrame:
        """Passes that these criteria take."""
        return read_csv(self._path(layout.CRITERIA_COSTS, model=model))

    def speeds(self, model: str) -> pd.DataFrame | None:
        """Speed of a model for which it is measured."""
        path = self._if_made(layout.SPEED, model=model)
        return read_csv(path) if path else None

    def entropy(self, model: str) -> dict | None:
        """Diagnostics of the entropies, where anything ranks heads by entropy."""
        path = self._if_made(layout.DIAGNOSTICS, model=model)
        return read_json(path) if path else None


def curves(tidy: pd.DataFrame, model: str, strategy: str) -> list[pd.DataFrame]:
    """The curves of one model and strategy, one a run or random trial, those of run 0 first."""
    chosen = tidy[(tidy["model"] == model) & (tidy["strategy"] == strategy)]
    return [curve.sort_values("heads_pruned") for _, curve in chosen.groupby(["run", "trial"], dropna=False)]


def of_run_0(curves: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """The curves of run 0, and random trials that are of no run: all runs have the same model."""
    return [curve for curve in curves if curve["run"].fillna(0).iloc[0] == 0]


def total_heads(tidy: pd.DataFrame, model: str) -> int:
    """Heads of the unpruned model, tied ones counted in every layer."""
    first = tidy[tidy["model"] == model].iloc[0]
    return int(first["heads_pruned"] + first["heads_left"])


def over_runs(curves: list[pd.DataFrame], by: str, of: str = "accuracy"):
    """Accuracies, or another metric, of several runs grouped by how much is pruned, as far as every run goes."""
    joined = pd.concat(curves)
    return joined[joined.groupby(by)[of].transform("size") == len(curves)].groupby(by)[of]


def importance(scores: pd.DataFrame) -> pd.DataFrame:
    """Ranks of the heads in run 0, a column a criterion: the head pruned first has rank 1."""
    first = scores[scores["run"] == 0]
    return first.pivot(index=["layer", "head"], columns="criterion", values="rank")[first["criterion"].unique()]
