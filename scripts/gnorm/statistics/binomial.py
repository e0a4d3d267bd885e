"""Intervals of published curves, of which only counts are known; numpy alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from gnorm.statistics.intervals import Estimate, weights


def counted(
    fraction: Sequence[float],
    accuracies: Sequence[Sequence[float]],
    rows: int,
    level: float,
    share: float | None = None,
) -> Estimate:
    """Estimate a curve's number, or the mean of several random trials' numbers, where only counts are known.

    It is not known which rows were right at which steps. The interval takes them to be as dependent as their counts
    allow: as if rows were lost one by one in a fixed order. No other dependence has a larger variance. Like Agresti
    and Coull it adds z**2 / 2 rows that are right, and as many that are wrong, at every step.
    """
    normal, table = NormalDist(), np.atleast_2d(accuracies)
    z = normal.inv_cdf((1 + level) / 2)
    own = weights(np.asarray(fraction, float), share)
    chances = (rows * table + z**2 / 2) / (rows + z**2)
    of_rows = _nested(np.tile(own / len(table), len(table)), chances.ravel()) / (rows + z**2)
    numbers = table @ own
    of_trials = numbers.var(ddof=1) / len(numbers) if len(numbers) > 1 else 0.0
    middle, half = float(chances.mean(0) @ own), z * math.sqrt(of_rows + of_trials)
    return Estimate(
        value=float(numbers.mean()),
        low=max(0.0, middle - half),
        high=min(1.0, middle + half),
        p=math.nan,
        variances={"rows": float(of_rows), "runs": 0.0, "trials": float(of_trials)},
        runs=(float(numbers.mean()),),
        rows=rows,
        trials=len(numbers) if len(numbers) > 1 else 0,
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
