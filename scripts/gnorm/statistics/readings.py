"""What is read off an accuracy curve: how much each of its points counts. numpy alone.

A number that is a weighted sum of a curve's accuracies is a sum over rows too, so that it can be resampled row by row
(`gnorm.statistics.intervals`).

Some numbers are of points that the accuracies themselves choose, such as the largest rise. Chosen and measured on the
same rows, they would be too high: by chance some step always rises. So every other row chooses the points, and the rest
measure them. To let each half choose for the other would not do: where both happen to agree, both are too high.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

Weigh = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (fractions, accuracies) -> weights


@dataclass(frozen=True)
class Reading:
    name: str
    weigh: Weigh  # NaN where a curve does not get so far
    is_change: bool = False  # of accuracy, not an accuracy: the weights add up to 0
    is_chosen: bool = False  # by the accuracies


def _mean(first: float, last: float, fraction: np.ndarray, _accuracy: np.ndarray) -> np.ndarray:
    reached = fraction[0] <= first + 1e-12 and (last <= fraction[-1] or np.isclose(last, fraction[-1]))
    if not reached:
        return np.full(len(fraction), np.nan)
    knots = np.array([first, *fraction[(fraction > first) & (fraction < last)], last])
    steps = np.diff(knots) / 2 / (last - first)
    own = np.append(steps, 0) + np.append(0, steps)
    return np.array([np.interp(knots, fraction, one) for one in np.eye(len(fraction))]) @ own


def mean_between(first: float, last: float) -> Reading:
    """The mean accuracy with from `first` to `last` of the heads pruned, by the trapezoid rule."""
    return Reading(f"mean accuracy with {first:.0%} to {last:.0%} pruned", partial(_mean, first, last))


AREA = Reading("area", partial(_mean, 0.0, 1.0))


def _at(share: float, fraction: np.ndarray, _accuracy: np.ndarray) -> np.ndarray:
    if share > fraction[-1] + 1e-12:
        return np.full(len(fraction), np.nan)
    return np.array([np.interp(share, fraction, one) for one in np.eye(len(fraction))])


def at(share: float) -> Reading:
    """The accuracy with a share of the heads pruned, between two steps linearly."""
    return Reading(f"accuracy with {share:.0%} pruned", partial(_at, share))


def later_than_earlier(share: float) -> Reading:
    """The mean accuracy beyond a share of pruned heads, minus that up to it."""
    later, earlier = partial(_mean, share, 1.0), partial(_mean, 0.0, share)
    return Reading(
        f"mean accuracy beyond {share:.0%} minus up to it", lambda *curve: later(*curve) - earlier(*curve), True
    )


def change_at(share: float) -> Reading:
    """How much accuracy has changed when a share of the heads is pruned."""
    return Reading(
        f"change with {share:.0%} pruned", lambda *curve: _at(share, *curve) - _at(0.0, *curve), is_change=True
    )


def _largest_rise(fraction: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    lowest = np.minimum.accumulate(accuracy)[:-1]  # before each later step
    later = int((accuracy[1:] - lowest).argmax()) + 1
    found = np.zeros(len(fraction))
    found[later], found[int(accuracy[:later].argmin())] = 1, -1
    return found


LARGEST_RISE = Reading("largest rise", _largest_rise, is_change=True, is_chosen=True)


def _rises(fraction: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    rising = (np.diff(accuracy) > 0).astype(float)
    return np.append(0, rising) - np.append(rising, 0)


RISES = Reading("sum of rises", _rises, is_change=True, is_chosen=True)
