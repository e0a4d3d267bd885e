"""Intervals of published curves, of which only counts are known; numpy alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from gnorm.statistics.intervals import Estimate
from gnorm.statistics.readings import AREA, Reading


def counted(
    fraction: Sequence[float],
    accuracies: Sequence[Sequence[float]],
    rows: int | None,
    level: float,
    reading: Reading = AREA,
) -> Estimate:
    """Estimate what is read off a curve, or its mean over several random trials, where only counts are known.

    It is not known which rows were right at which steps. The interval takes them to be as dependent as their counts
    allow: as if rows were lost one by one in a fixed order. No other dependence has a larger variance. Like Agresti
    and Coull it adds z**2 / 2 rows that are right, and as many that are wrong, at every step. A change is the
    difference of two such numbers. Without `rows`, or where the accuracies choose the points, there is no interval.
    """
    share, table = np.asarray(fraction, float), np.atleast_2d(accuracies)
    own = np.array([reading.weigh(share, accuracy) for accuracy in table])
    if reading.is_change and not reading.is_chosen:
        after, before = (_counted(table, np.maximum(sign * own[0], 0), rows, level) for sign in (1, -1))
        found = counted_difference(after, before, level)
        return replace(found, trials=after.trials)
    return _counted(table, own if reading.is_chosen else own[0], None if reading.is_chosen else rows, level)


def _counted(table: np.ndarray, own: np.ndarray, rows: int | None, level: float) -> Estimate:
    numbers = (table * own).sum(1)
    trials, value = len(numbers) if len(numbers) > 1 else 0, float(numbers.mean())
    of_trials = float(numbers.var(ddof=1) / len(numbers)) if trials else 0.0
    if rows is None:
        variances = {"rows": math.nan, "runs": 0.0, "trials": of_trials}
        return Estimate(value, math.nan, math.nan, math.nan, variances, (value,), 0, trials)
    z = NormalDist().inv_cdf((1 + level) / 2)
    chances = (rows * table + z**2 / 2) / (rows + z**2)
    of_rows = _nested(np.tile(own / len(table), len(table)), chances.ravel()) / (rows + z**2)
    middle, half = float(chances.mean(0) @ own), z * math.sqrt(of_rows + of_trials)
    return Estimate(
        value=value,
        low=max(0.0, middle - half),
        high=min(1.0, middle + half),
        p=math.nan,
        variances={"rows": float(of_rows), "runs": 0.0, "trials": of_trials},
        runs=(value,),
        rows=rows,
        trials=trials,
    )


def beyond(estimate: Estimate, above: float) -> Estimate:
    """How far an estimate from counts is above a threshold."""
    value, error = estimate.value - above, estimate.error
    return replace(
        estimate,
        value=value,
        low=estimate.low - above,
        high=estimate.high - above,
        p=2 * NormalDist().cdf(-abs(value) / error) if error else math.nan,
        runs=(value,),
    )


def _nested(own: np.ndarray, chances: np.ndarray) -> float:
    """The variance of what a row adds if rows that are right at a step are right at all steps of higher accuracy."""
    order = np.argsort(-chances)
    sums = np.cumsum(own[order])
    lengths = -np.diff(np.append(chances[order], 0.0))
    return float(lengths @ sums**2 - (lengths @ sums) ** 2)


def counted_difference(one: Estimate, other: Estimate, level: float) -> Estimate:
    """Estimate a difference where only counts are known, as if the two had been measured on different rows.

    They were measured on the same ones. Rows that are hard for one strategy are hard for the other too, so the
    interval is wider than one from rows would be.
    """
    value, normal = one.value - other.value, NormalDist()
    variances = {name: one.variances[name] + other.variances[name] for name in one.variances}
    error = math.sqrt(sum(variances.values()))
    half = normal.inv_cdf((1 + level) / 2) * error
    return Estimate(
        value=value,
        low=value - half,
        high=value + half,
        p=2 * normal.cdf(-abs(value) / error) if error else math.nan,
        variances=variances,
        runs=(value,),
        rows=min(one.rows, other.rows),
        trials=one.trials + other.trials,
    )
