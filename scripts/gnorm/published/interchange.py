"""File names and formats of the authors' repository: results can replace a clone of it, and are read like one."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from gnorm import layout
from gnorm.errors import UserError
from gnorm.files import check_inside

PUBLISHED = {
    "greedy_gnorm": "GreedyGnorm",
    "inverse_gnorm": "InverseGreedyGnorm",
    "ae": "AE",
    "inverse_ae": "AEinverse",
}
DRAWN = "random"  # the strategy of the published trials
NAME, ROWS = r"[\w-]+", r"\d{1,12}"
_CURVE = layout.pattern(layout.PUBLISHED_CURVE, model=NAME, published=NAME)
_TRIALS = layout.pattern(layout.PUBLISHED_TRIALS, model=NAME, trials=r"\d+", levels=r"\d+", group=r"\d+group")
_SHARD = layout.pattern(layout.PUBLISHED_SHARD, model=f"{NAME}?", first=ROWS, last=ROWS)
_MEAN = layout.pattern(layout.PUBLISHED_ENTROPY, model=f"{NAME}?", total=ROWS)


def strategy_name(strategy: str) -> str:
    """Name a strategy as published files do; a strategy they do not have gets a name of the same pattern."""
    camel = "".join(part[:1].upper() + part[1:] for part in strategy.replace("-", "_").split("_"))
    return PUBLISHED.get(strategy, camel)


def strategy_of(published: str) -> str:
    """Get the strategy of a published name."""
    known = {name: strategy for strategy, name in PUBLISHED.items()}
    return known.get(published) or re.sub(r"(?<=.)(?=[A-Z])", "_", published).lower()


@dataclass
class Clone:
    """The files of one folder of results, by model; missing files are left out."""

    curves: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))  # strategy -> file
    random: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # its groups
    shards: dict[str, list[tuple[int, int, str]]] = field(default_factory=lambda: defaultdict(list))
    counted: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))  # files named by rows

    def __bool__(self) -> bool:
        return bool(self.models)

    @property
    def models(self) -> list[str]:
        """The names of all models, the paper's four first, in its order."""
        known = ["BERT", "ALBERT", "ROBERTA", "XLM_ROBERTA"]
        models = {*self.curves, *self.random, *self.shards, *self.counted}
        return [m for m in known if m in models] + sorted(models - set(known))

    @property
    def strategies(self) -> list[str]:
        """The names of all strategies, those of the paper first."""
        strategies = {strategy for curves in self.curves.values() for strategy in curves}
        known = [s for s in PUBLISHED if s in strategies]
        return known + sorted(strategies - set(known)) + ([DRAWN] if self.random else [])

    def all_curves(self) -> list[tuple[str, str, str]]:
        """List (file, model, strategy) of each curve."""
        return [(path, m, s) for m, of_model in self.curves.items() for s, path in of_model.items()]

    def all_trials(self) -> list[tuple[list[str], str]]:
        """List (files, model) of the random trials."""
        return [(paths, model) for model, paths in self.random.items()]

    def all_entropies(self) -> list[tuple[str, list, list, str | None]]:
        """List (model, shards, files named by rows, an accuracy curve) of each model with entropies."""
        return [
            (m, self.shards.get(m, []), self.counted.get(m, []), next(iter(self.curves[m].values()), None))
            for m in self.models
            if m in self.shards or m in self.counted
        ]

    def files_of_accuracies(self) -> list[str]:
        return [path for path, *_ in self.all_curves()] + [path for paths, _ in self.all_trials() for path in paths]

    def files_of_entropies(self) -> list[str]:
        return [file[-1] for _, *kinds, _ in self.all_entropies() for kind in kinds for file in kind]


def scan(folder: str | Path) -> Clone:
    """Find the files of a clone of the authors' repository, or of a suite's results."""
    curves, entropies = (
        layout.within(folder, path).parent for path in (layout.PUBLISHED_CURVE, layout.PUBLISHED_SHARD)
    )
    if not curves.is_dir():
        raise UserError(f"published: {folder} has no folder {curves.name}: give a clone of the authors' repository")
    clone = Clone()
    for path in sorted(curves.iterdir()):
        check_inside(path, folder)
        if named := _CURVE.fullmatch(path.name):
            clone.curves[named["model"]][strategy_of(named["published"])] = str(path)
        elif named := _TRIALS.fullmatch(path.name):
            clone.random[named["model"]].append(str(path))
    for path in sorted(entropies.iterdir()) if entropies.is_dir() else []:
        check_inside(path, folder)
        if named := _SHARD.fullmatch(path.name):
            clone.shards[named["model"]].append((int(named["first"]), int(named["last"]), str(path)))
        elif named := _MEAN.fullmatch(path.name):
            clone.counted[named["model"]].append((int(named["total"]), str(path)))
    if not clone:
        raise UserError(f"published: {curves} holds none of the published files")
    return clone
