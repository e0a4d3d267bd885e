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
PAPER = ("BERT", "ALBERT", "ROBERTA", "XLM_ROBERTA")


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
        models = {*self.curves, *self.random, *self.shards, *self.counted}
        return [m for m in PAPER if m in models] + sorted(models - {*PAPER})

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


def _entropy(model: str, name: str) -> list[int]:
    """Read a file of entropies as this model's, or as any model's: first and last row, or the number of rows."""
    model = re.escape(model) or NAME
    shard = layout.pattern(layout.PUBLISHED_SHARD, model=model, first=ROWS, last=ROWS).fullmatch(name)
    mean = layout.pattern(layout.PUBLISHED_ENTROPY, model=model, total=ROWS).fullmatch(name)
    return list(map(int, (shard or mean).groups()[1:])) if shard or mean else []


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
    known = {*PAPER, *clone.curves, *clone.random}  # before the entropies, which are no evidence of a name
    known |= {path.parent.name for path in Path(folder).glob(str(layout.within("", layout.HEADS, model="*")))}
    for path in sorted(entropies.iterdir()) if entropies.is_dir() else []:
        check_inside(path, folder)
        if not _entropy("", path.name):
            continue
        readings = [(model, *rows) for model in sorted(known) if (rows := _entropy(model, path.name))]
        if not readings:
            raise UserError(
                f"published: {path} begins with no model's name that is known there ({', '.join(sorted(known))}): a "
                f"model is known by its files in {curves.name}; rename the file, or take it away"
            )
        if len(readings) > 1:
            raise UserError(f"published: {path} may be of {readings[0][0]} or of {readings[1][0]}; rename one of them")
        [(model, *rows)] = readings
        (clone.shards if len(rows) == 2 else clone.counted)[model].append((*rows, str(path)))
    if not clone:
        raise UserError(f"published: {curves} holds none of the published files")
    return clone
