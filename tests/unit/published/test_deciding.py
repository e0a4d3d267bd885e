"""Statuses of claims with one measure or several, in words and with what it would take to decide."""

import math

import pytest

from gnorm.published.deciding import NOTHING_ALONE, contradicted, described, judged, takes
from gnorm.statistics.estimates import Measure, Measured
from gnorm.statistics.intervals import FAILS, HOLDS, UNDECIDED, Estimate
from gnorm.statistics.readings import LARGEST_RISE, at


def measured(value, half, *, p=0.001, runs=None, rows=100, measure=None, trials=0.0):
    """An estimate whose interval is `half` to both sides, from 100 rows."""
    variances = {"rows": (half / 1.96) ** 2 * (1 - trials), "runs": 0.0, "trials": (half / 1.96) ** 2 * trials}
    own = Estimate(value, value - half, value + half, p, variances, runs or (value,), rows, 25 if trials else 0)
    return Measured(measure or Measure("greedy_gnorm", "ae"), own, (0.7 + value, 0.7))


@pytest.mark.parametrize(
    ("parts", "expected", "decisive"),
    [
        ([(0.1, 0.05)], HOLDS, 0),
        ([(0.1, 0.2)], UNDECIDED, 0),
        ([(-0.1, 0.05)], FAILS, 0),
        ([(0.1, 0.05), (0.2, 0.05)], HOLDS, 0),  # all hold: the smallest
        ([(0.2, 0.05), (0.05, 0.1), (0.3, 0.5)], UNDECIDED, 1),  # the smallest that does not
        ([(0.2, 0.05), (-0.1, 0.05)], FAILS, 1),
        ([(0.2, 0.05), (-0.1, 0.2)], UNDECIDED, 1),
        ([(0.2, 0.05), (math.nan, math.nan)], UNDECIDED, 1),
    ],
)
def test_all_measures_must_be_above_zero(parts, expected, decisive):
    given = [measured(*part) for part in parts]
    assert judged(given, 0.95) == (expected, given[decisive])


def test_one_of_many_fails_only_if_it_would_after_a_correction():
    """At 20 levels without a difference one of them would fail by chance, in most runs."""
    many = [measured(0.2, 0.05) for _ in range(19)]
    for p, expected in ((0.03, UNDECIDED), (0.0024, FAILS)):
        status, decisive = judged([*many, measured(-0.1, 0.09, p=p)], 0.95)
        assert status == expected and decisive.estimate.value == -0.1
    assert judged([measured(-0.1, 0.09, p=0.03)], 0.95)[0] == FAILS


def test_it_is_said_in_points():
    assert described(measured(0.0123, 0.02), 0.95) == (
        "area 0.712 against 0.700: +1.2 points (95% interval -0.8 to +3.2)"
    )
    asked = Measured(Measure("ae", reading=at(0.8), above=0.89), measured(-0.0001, 0.02).estimate, (0.8899,))
    assert described(asked, 0.9) == (
        "accuracy with 80% pruned 89.0%, 89.0% is asked: +0.0 points (90% interval -2.0 to +2.0)"
    )
    unknown = Measured(Measure("ae", "random"), measured(0.05, math.nan).estimate, (0.75, 0.7))
    assert described(unknown, 0.95).endswith("+5.0 points, no interval")
    split = measured(0.1, 0.05, runs=(0.3, 0.1, -0.1))
    assert contradicted(split.estimate) and described(split, 0.95).endswith("+15.0), the other way in 1 of 3 runs")


def test_what_it_would_take():
    """Four times as many rows halve the interval; a power of 80% asks for an effect 2.8 errors wide."""
    error = 0.1 / 1.96
    rows = math.ceil(100 * (error * (1.95996 + 0.84162) / 0.05) ** 2)
    assert takes(measured(0.05, 0.1), 0.95) == f"{rows:,} rows"
    chosen = Measure("greedy_gnorm", reading=LARGEST_RISE)
    assert takes(measured(0.05, 0.1, measure=chosen), 0.95) == f"{2 * rows:,} rows"  # every other row measures
    assert takes(measured(0.2, 0.1), 0.95) == "" and takes(measured(0.05, math.nan), 0.95) == ""
    assert takes(measured(0.05, 0.1, trials=0.5), 0.95) == NOTHING_ALONE
    split = takes(measured(0.1, 0.05, runs=(0.3, 0.1, -0.1)), 0.95)
    assert split.endswith(" runs") or split == NOTHING_ALONE
