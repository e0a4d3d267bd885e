"""What a finished suite holds, as tables and figures read it; imports no torch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from gnorm.errors import UserError
from gnorm.files import read_json

# Numbers of a trajectory, and of random trials.
STEPS = ("step", "heads_left", "accuracy", "correct", "evaluated", "parameters", "seconds")
TRIALS = ("trial", "heads_pruned", "accuracy")

# Of the tidy table: one row a step of a trajectory, or a level of a random trial.
COLUMNS = (
    "model strategy run trial step heads_pruned fraction_pruned layer head score accuracy correct evaluated "
    "parameters seconds unit"
).split()


class Results:
    """Reads only what a table or figure says it `NEEDS`: the rule has just those as inputs.

    Curves are those of one `unit`: a pruned head and a pruned group of neurons are not the same thing. `files` are
    those inputs: of what not every model has, any other file is left over from another configuration.
    """

    def __init__(
        self,
        root: str | Path,
        models: dict[str, str],
        strategies: dict[str, dict],
        needs: Sequence[str],
        unit: str = "heads",
        files: Collection[str] | None = None,
    ):
        self.root = Path(root)
        self.models = models  # name in file names -> title
        self.strategies = strategies
        self.needs = needs
        self.unit = unit
        self.files = files

    def _path(self, need: str, name: str) -> Path:
        if need not in self.needs:
            raise KeyError(f"{need!r} is read but not listed in NEEDS")
        return self.root / name

    def _if_made(self, path: Path) -> Path | None:
        return path if (path.exists() if self.files is None else str(path) in self.files) else None

    def tidy(self) -> pd.DataFrame:
        table = pd.read_csv(self._path("tidy", "tidy.csv"))
        return table[table["unit"] == self.unit]

    def heads(self, model: str) -> dict:
        return read_json(self._path("heads", f"{model}/heads.json"))

    def baselines(self, model: str) -> dict | None:
        """Of a model that is trained here."""
        path = self._if_made(self._path("baselines", f"{model}/baselines.json"))
        return read_json(path) if path else None

    def controls(self, model: str) -> dict:
        return read_json(self._path("controls", f"{model}/controls.json"))

    def solution(self, model: str) -> dict:
        return read_json(self._path("solutions", f"solutions/{model}/solution.json"))

    def mask(self, model: str) -> np.ndarray:
        """1 = kept, slots."""
        return np.loadtxt(self._path("solutions", f"solutions/{model}/mask.csv"), delimiter=",", ndmin=2, dtype=int)

    def modules(self, model: str) -> pd.DataFrame:
        return pd.read_csv(self._path("solutions", f"solutions/{model}/parameters.csv"))

    def gradients(self, model: str) -> dict[str, np.ndarray]:
        with np.load(self._path("gradients", f"{model}/gradient_change.npz"), allow_pickle=False) as stored:
            return dict(stored)

    def criteria(self, model: str, what: str) -> pd.DataFrame:
        """`scores`, `curves` or `costs` of the criteria that are compared."""
        return pd.read_csv(self._path("criteria", f"{model}/criteria/{what}.csv"))

    def speeds(self, model: str) -> pd.DataFrame | None:
        """Of a model whose speed is measured."""
        path = self._if_made(self._path("speeds", f"{model}/speed.csv"))
        return pd.read_csv(path) if path else None

    def entropy(self, model: str) -> dict | None:
        """Where anything ranks heads by entropy."""
        path = self._if_made(self._path("entropy", f"{model}/entropy/diagnostics.json"))
        return read_json(path) if path else None


def read_table(path: str | Path, numbers: Sequence[str]) -> pd.DataFrame:
    """A CSV file that must have these columns, with numbers or nothing in them."""
    try:
        table = pd.read_csv(path)
    except (ValueError, OSError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    for column in numbers:
        if column not in table:
            raise UserError(f"{path} has no column {column!r}; it has {', '.join(map(str, table.columns))}")
        if not pd.api.types.is_numeric_dtype(table[column]):
            wrong = pd.to_numeric(table[column], errors="coerce").isna() & table[column].notna()
            row = int(wrong.idxmax())
            raise UserError(f"{path}: column {column!r} must hold numbers, row {row} has {table[column][row]!r}")
    return table


def curves(tidy: pd.DataFrame, model: str, strategy: str) -> list[pd.DataFrame]:
    """The curves of one model and strategy, one a run or random trial, run 0 first."""
    chosen = tidy[(tidy["model"] == model) & (tidy["strategy"] == strategy)]
    key = "trial" if chosen["trial"].notna().any() else "run"
    return [curve.sort_values("heads_pruned") for _, curve in chosen.groupby(key)]


def total_heads(tidy: pd.DataFrame, model: str) -> int:
    """Heads of the unpruned model, tied ones counted in every layer."""
    some = tidy[(tidy["model"] == model) & (tidy["fraction_pruned"] > 0)]
    return round((some["heads_pruned"] / some["fraction_pruned"]).iloc[0])


def over_runs(found: list[pd.DataFrame], by: str, of: str = "accuracy"):
    """Accuracies, or another metric, of several runs grouped by how much is pruned, as far as every run goes."""
    joined = pd.concat(found)
    return joined[joined.groupby(by)[of].transform("size") == len(found)].groupby(by)[of]


def importance(scores: pd.DataFrame) -> pd.DataFrame:
    """Ranks of the heads in run 0, a column a criterion: the head pruned first has rank 1."""
    first = scores[scores["run"] == 0]
    return first.pivot(index=["layer", "head"], columns="criterion", values="rank")[first["criterion"].unique()]
