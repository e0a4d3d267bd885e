"""File names and formats of the authors' repository: results can stand in for a clone of it, and be read like one."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from gnorm.errors import UserError

ACCURACY, ENTROPY = "experiments_results", "AE_calculation_results"
PUBLISHED = {
    "greedy_gnorm": "GreedyGnorm",
    "inverse_gnorm": "InverseGreedyGnorm",
    "ae": "AE",
    "inverse_ae": "AEinverse",
}
_CURVE = re.compile(r"pruned_heads_accuracy\((?P<model>[\w-]+)\)basedon(?P<strategy>[\w-]+)\.csv")
_RANDOM = re.compile(r"(?P<model>[\w-]+)randompruned_heads_data_\d+x\d+_(?P<group>\d+)group\.xlsx")
_SHARD = re.compile(r"(?P<model>[\w-]+?)(?P<first>\d+)_(?P<last>\d+)AE\.pt")
_COUNT = re.compile(r"(?P<model>[\w-]+?)_(?P<rows>\d+)AE\.pt")


def strategy_name(strategy: str) -> str:
    """A strategy in published file names; one they do not have gets a name of the same pattern."""
    camel = "".join(part[:1].upper() + part[1:] for part in strategy.replace("-", "_").split("_"))
    return PUBLISHED.get(strategy, camel)


def strategy_of(published: str) -> str:
    """The strategy of a published name."""
    known = {name: strategy for strategy, name in PUBLISHED.items()}
    return known.get(published) or re.sub(r"(?<=.)(?=[A-Z])", "_", published).lower()


def accuracy_file(model: str, strategy: str) -> str:
    return f"pruned_heads_accuracy({model})basedon{strategy_name(strategy)}.csv"


def random_file(model: str, trials: int, levels: int, group: int) -> str:
    return f"{model}randompruned_heads_data_{trials}x{levels}_{group}group.xlsx"


def joined_random_file(model: str, trials: int, levels: int) -> str:
    return f"{model}randompruned_heads_data_{trials}x{levels}_concated.xlsx"


def shard_file(model: str, first: int, last: int) -> str:
    return f"{model}{first}_{last}AE.pt"


def entropy_file(model: str, rows: int) -> str:
    return f"{model}_{rows}AE.pt"


@dataclass
class Clone:
    """The files of one folder of results, by model; what is missing is just not there."""

    curves: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))  # strategy -> file
    random: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # its groups
    shards: dict[str, list[tuple[int, int, str]]] = field(default_factory=lambda: defaultdict(list))
    counted: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))  # files named by rows

    @property
    def models(self) -> list[str]:
        """The paper's four first, in its order."""
        known = ["BERT", "ALBERT", "ROBERTA", "XLM_ROBERTA"]
        found = {*self.curves, *self.random, *self.shards, *self.counted}
        return [m for m in known if m in found] + sorted(found - set(known))

    @property
    def strategies(self) -> list[str]:
        """Those of the paper first."""
        found = {strategy for curves in self.curves.values() for strategy in curves}
        known = [s for s in PUBLISHED if s in found]
        return known + sorted(found - set(known)) + (["random"] if self.random else [])


def scan(folder: str | Path) -> Clone:
    """What a clone of the authors' repository, or a suite's results, holds."""
    root, clone = Path(folder), Clone()
    if not (root / ACCURACY).is_dir():
        raise UserError(f"published: {root} has no folder {ACCURACY}: give a clone of the authors' repository")
    for path in sorted((root / ACCURACY).iterdir()):
        if found := _CURVE.fullmatch(path.name):
            clone.curves[found["model"]][strategy_of(found["strategy"])] = str(path)
        elif found := _RANDOM.fullmatch(path.name):
            clone.random[found["model"]].append(str(path))
    for path in sorted((root / ENTROPY).iterdir()) if (root / ENTROPY).is_dir() else []:
        if found := _SHARD.fullmatch(path.name):
            clone.shards[found["model"]].append((int(found["first"]), int(found["last"]), str(path)))
        elif found := _COUNT.fullmatch(path.name):
            clone.counted[found["model"]].append((int(found["rows"]), str(path)))
    if not clone.models:
        raise UserError(f"published: {root}/{ACCURACY} holds none of the published files")
    return clone
