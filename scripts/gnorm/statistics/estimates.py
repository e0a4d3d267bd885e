"""Estimates of what is read off a model's curves: from its rows or, where only counts are known, from these."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from gnorm.statistics.binomial import beyond, counted, counted_difference
from gnorm.statistics.intervals import Bootstrap, Contrast, Estimate, Lines, lines_of
from gnorm.statistics.outcomes import Outcomes, join, read
from gnorm.statistics.readings import AREA, Reading
from gnorm.statistics.results import Results, curves, of_run_0

ADD = "add the strategy `{}` to config.yaml"
COMPARE = "add `{}` to `compare` of the suite, or of config.yaml if it has a list"
ENDS = "`{}` ends before the last head: set `stop: {{}}` in config.yaml"


class Missing(Exception):
    """Data that an estimate needs are missing; the text says how a run gets them."""


@dataclass(frozen=True)
class Measure:
    """What is read off a strategy's curve, minus the same of another's, and how far that is above a threshold."""

    one: str
    other: str = ""
    reading: Reading = AREA
    above: float = 0.0
    is_criterion: bool = False  # `one` is a criterion of the comparison, not a strategy


@dataclass(frozen=True)
class Measured:
    measure: Measure
    estimate: Estimate
    values: tuple[float, ...]  # of one, and of the other


@dataclass(frozen=True)
class OfRows:
    """Estimates from outcomes row by row. The files are tuples, as `Suite.outcomes` lists them."""

    bootstrap: Bootstrap
    runs: Sequence[tuple[str, str, str]] = ()  # file, model, strategy
    trials: Sequence[tuple[str, str, str, int | None]] = ()  # file, model, strategy, and the run if it has its own
    compared: Sequence[tuple[str, str]] = ()  # file, model
    _read: dict[tuple, Outcomes | Mapping[int, Outcomes]] = field(default_factory=dict, init=False)

    def measured(self, model: str, measures: Sequence[Measure]) -> list[Measured]:
        """Estimate measures, those of the same rows together; raises `Missing`."""
        contrasts, values = zip(*(self._contrast(model, measure) for measure in measures), strict=True)
        # The least p that resampling can find must survive a correction for their number.
        enough = max(self.bootstrap.resamples, math.ceil(4 * len(measures) / (1 - self.bootstrap.level)))
        bootstrap, found = replace(self.bootstrap, resamples=enough), {}
        for is_chosen in (False, True):  # which is measured on every other row
            alike = [c for c, own in zip(contrasts, measures, strict=True) if own.reading.is_chosen == is_chosen]
            found |= zip(alike, bootstrap.estimate(*alike), strict=True)
        return [Measured(own, found[c], v) for own, c, v in zip(measures, contrasts, values, strict=True)]

    def _contrast(self, model: str, measure: Measure) -> tuple[Contrast, tuple[float, ...]]:
        one = self.lines(model, measure.one, measure.reading, measure.is_criterion)
        if isinstance(one, Mapping) or self.is_drawn(model, measure.one):
            if measure.other:
                raise ValueError("random orders stand on the other side of a difference")
            return Contrast.of_random(one), (_mean(one),)
        if not measure.other:
            own = Contrast(one, is_difference=measure.reading.is_change, above=measure.above)
            return own, (_mean(one),)
        other = self.lines(model, measure.other, measure.reading)
        between = Contrast.with_random if self.is_drawn(model, measure.other) else Contrast.between
        return replace(between(one, other), above=measure.above), (_mean(one), _mean(other))

    def is_drawn(self, model: str, strategy: str) -> bool:
        return any(own[1:3] == (model, strategy) for own in self.trials)

    def lines(
        self, model: str, name: str, reading: Reading = AREA, is_criterion: bool = False
    ) -> Lines | dict[int, Lines]:
        """Read what each row adds to a number: of runs, or of random trials, by run if each has its own."""
        kept = self.outcomes(model, name, is_criterion)
        if isinstance(kept, Mapping):
            return {run: _whole(lines_of(own, reading), name) for run, own in kept.items()}
        return _whole(lines_of(kept, reading), name)

    def outcomes(self, model: str, name: str, is_criterion: bool = False) -> Outcomes | Mapping[int, Outcomes]:
        key = model, name, is_criterion
        if key not in self._read:
            for other in [other for other in self._read if other[0] != model]:
                del self._read[other]  # models come one after another
            self._read[key] = self._found(*key)
        return self._read[key]

    def _found(self, model: str, name: str, is_criterion: bool) -> Outcomes | Mapping[int, Outcomes]:
        if is_criterion:
            own = [part.of_criterion(name) for part in map(read, (path for path, of in self.compared if of == model))]
            if not any(len(part.curve) for part in own):
                raise Missing(COMPARE.format(name))
            return join([part for part in own if len(part.curve)])
        if paths := [path for path, *of in self.runs if of == [model, name]]:
            return join(list(map(read, paths)))
        drawn: dict[int | None, list[Outcomes]] = {}
        for path, *of, run in self.trials:
            if of == [model, name]:
                drawn.setdefault(run, []).append(read(path))
        if not drawn:
            raise Missing(ADD.format(name))
        of_runs = {run: join(parts) for run, parts in drawn.items()}
        return of_runs.get(None, of_runs)


def _whole(lines: Lines, name: str) -> Lines:
    if not np.isfinite(lines.values).all():
        raise Missing(ENDS.format(name))
    return lines


def _mean(lines: Lines | Mapping[int, Lines]) -> float:
    of_runs: Iterable[Lines] = lines.values() if isinstance(lines, Mapping) else [lines]
    return float(np.mean([own.estimates.mean() for own in of_runs]))


@dataclass(frozen=True)
class OfCounts:
    """Estimates from the curves of run 0 alone, with intervals where the number of rows is known."""

    tidy: pd.DataFrame
    rows: Mapping[str, int]  # of models, by name
    level: float

    def measured(self, model: str, measures: Sequence[Measure]) -> list[Measured]:
        """Estimate measures one by one; raises `Missing`."""
        return [self._measured(model, measure) for measure in measures]

    def _measured(self, model: str, measure: Measure) -> Measured:
        if measure.is_criterion:
            raise Missing(COMPARE.format(measure.one))
        parts = [self._counted(model, name, measure.reading) for name in (measure.one, measure.other) if name]
        found = counted_difference(*parts, self.level) if len(parts) == 2 else parts[0]
        found = beyond(found, measure.above) if measure.above else found
        return Measured(measure, found, tuple(part.value for part in parts))

    def is_drawn(self, model: str, strategy: str) -> bool:
        return any(curve["trial"].notna().all() for curve in curves(self.tidy, model, strategy))

    def _counted(self, model: str, strategy: str, reading: Reading) -> Estimate:
        own = curves(self.tidy, model, strategy)
        if not own:
            raise Missing(ADD.format(strategy))
        own = of_run_0(own) if own[0]["trial"].notna().all() else own[:1]
        accuracies = [curve["accuracy"].tolist() for curve in own]
        found = counted(own[0]["fraction_pruned"].tolist(), accuracies, self.rows.get(model), self.level, reading)
        if math.isnan(found.value):
            raise Missing(ENDS.format(strategy))
        return found


UNKNOWN = Estimate(math.nan, math.nan, math.nan, math.nan, {}, (), 0, 0)


def source_of(results: Results, intervals: Mapping[str, Any], known: Mapping[str, int]) -> OfRows | OfCounts:
    """Take what a table has: outcomes row by row, or curves and on how many rows some models were measured."""
    if results.outcomes:
        return OfRows(Bootstrap(**intervals), **results.outcomes)
    return OfCounts(results.tidy(), known, intervals["level"])


def alone(source: OfRows | OfCounts, model: str, strategy: str, reading: Reading = AREA) -> Estimate:
    """Estimate what is read off a strategy's curves; NaN where it is not there."""
    try:
        return source.measured(model, [Measure(strategy, reading=reading)])[0].estimate
    except Missing:
        return UNKNOWN


def difference(source: OfRows | OfCounts, model: str, strategy: str, other: str, reading: Reading = AREA) -> Estimate:
    """Estimate by how much a strategy is above another; NaN if one is not there, or both are drawn or the same."""
    drawn = [source.is_drawn(model, name) for name in (strategy, other)]
    if all(drawn) or strategy == other:
        return UNKNOWN
    pair = (other, strategy) if drawn[0] else (strategy, other)
    try:
        found = source.measured(model, [Measure(*pair, reading=reading)])[0].estimate
    except Missing:
        return UNKNOWN
    runs = tuple(-run for run in found.runs)
    return replace(found, value=-found.value, low=-found.high, high=-found.low, runs=runs) if drawn[0] else found


def interval(estimate: Estimate, name: str = "") -> dict[str, float]:
    """The ends of an interval as columns of a table."""
    return {f"{name}low": estimate.low, f"{name}high": estimate.high}
