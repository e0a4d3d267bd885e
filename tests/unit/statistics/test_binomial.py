"""Intervals from counts: the widest that the counts allow."""

import numpy as np
import pytest

from gnorm.statistics.binomial import beyond, counted, counted_difference
from gnorm.statistics.curves import accuracy_at, area
from gnorm.statistics.intervals import FAILS, HOLDS, UNDECIDED, Bootstrap, Contrast, Lines, decide
from gnorm.statistics.readings import AREA, LARGEST_RISE, RISES, at, change_at

FRACTION = np.linspace(0, 1, 9)
CURVE = 0.4 + 0.55 / (1 + np.exp(9 * (FRACTION - 0.6)))


def rows_of(rng, curve, rows, kind):
    """Which rows are right at each step: the same all along (nested), each step by itself, or something between."""
    own, own_at = rng.random(rows), rng.random((len(curve), rows))
    mixed = rng.random(rows) < {"nested": 1, "apart": 0, "between": 0.6}[kind]
    return np.where(mixed, own, own_at) < np.asarray(curve)[:, None]


@pytest.mark.parametrize("share", [None, 0.3])
def test_values_are_those_of_the_curve(share):
    reading = at(share) if share else AREA
    found = counted(FRACTION, CURVE, rows=300, level=0.95, reading=reading)
    expected = area(FRACTION, CURVE) if share is None else accuracy_at(FRACTION, CURVE, share)
    assert found.value == pytest.approx(expected) and found.low < found.value < found.high
    several = counted(
        FRACTION, [CURVE, CURVE - 0.1, CURVE - 0.05], rows=300, level=0.95, reading=at(share) if share else AREA
    )
    assert several.value == pytest.approx(expected - 0.05) and several.trials == 3
    assert several.variances["trials"] == pytest.approx(0.05**2 / 3) and found.variances["trials"] == 0


@pytest.mark.parametrize("right", [0, 3, 50, 100])
def test_a_single_step_has_agresti_and_coulls_interval(right):
    found, z = counted([0, 1], [right / 100] * 2, rows=100, level=0.95), 1.959964
    middle = (right + z**2 / 2) / (100 + z**2)
    half = z * np.sqrt(middle * (1 - middle) / (100 + z**2))
    assert (found.low, found.high) == pytest.approx((max(0, middle - half), min(1, middle + half)))


def test_no_dependence_of_the_steps_varies_more():
    """Against rows drawn that way: the variance is that of nested rows, and others have less."""
    rng, own = np.random.default_rng(1), AREA.weigh(FRACTION, CURVE)
    spread = {}
    for kind in ("nested", "between", "apart"):
        spread[kind] = (own @ rows_of(rng, CURVE, 400_000, kind)).var()
    assumed = counted(FRACTION, CURVE, rows=10**7, level=0.95).variances["rows"] * 10**7
    assert assumed == pytest.approx(spread["nested"], rel=0.01)
    assert spread["apart"] < spread["between"] < spread["nested"]


@pytest.mark.parametrize("kind", ["nested", "between", "apart"])
@pytest.mark.parametrize("rows", [40, 300])
def test_intervals_cover_at_least(kind, rows, times=400):
    rng, true, covered = np.random.default_rng(2), area(FRACTION, CURVE), 0
    for _ in range(times):
        found = counted(FRACTION, rows_of(rng, CURVE, rows, kind).mean(1), rows=rows, level=0.95)
        covered += found.low <= true <= found.high
    assert covered / times >= 0.93 and (kind != "nested" or covered / times <= 0.98)


@pytest.mark.parametrize("kind", ["nested", "between", "apart"])
def test_differences_on_the_same_rows(kind, times=400):
    """Two curves on rows that are hard for both: covered, without a false claim, and no narrower than from the rows."""
    rng, own, covered, claims = np.random.default_rng(3), AREA.weigh(FRACTION, CURVE), 0, []
    for _ in range(times):
        hard = rng.random(200) < 0.3
        curves = [rows_of(rng, CURVE, 200, kind) & ~hard for _ in range(2)]
        one, other = (counted(FRACTION, curve.mean(1), rows=200, level=0.95) for curve in curves)
        found = counted_difference(one, other, 0.95)
        covered += found.low <= 0 <= found.high
        claims.append(decide(found))
    assert covered / times >= 0.93 and claims.count(HOLDS) <= 0.05 * times and claims.count(FAILS) <= 0.05 * times
    ones, numbers = np.ones(200), np.arange(200)
    lines = [Lines(own @ curve[None].astype(float), ones, numbers, (0,)) for curve in curves]
    (paired,) = Bootstrap(0.95, 1000, 1).estimate(Contrast.between(*lines))
    assert paired.value == pytest.approx(found.value) and paired.high - paired.low < found.high - found.low


def test_what_is_far_apart_is_decided():
    one = counted(FRACTION, CURVE, rows=400, level=0.95)
    trials = counted(FRACTION, [CURVE - 0.3 + shift for shift in (-0.02, 0, 0.02)], rows=400, level=0.95)
    assert decide(counted_difference(one, trials, 0.95)) == HOLDS
    assert decide(counted_difference(trials, one, 0.95)) == FAILS
    assert decide(counted_difference(one, one, 0.95)) == UNDECIDED
    assert counted_difference(one, trials, 0.95).p < 0.001


def test_changes_are_differences_of_what_is_gained_and_lost():
    """Counted as if on different rows; where points are chosen, or rows unknown, there is no interval."""
    found = counted(FRACTION, CURVE, rows=300, level=0.95, reading=change_at(0.5))
    after, before = (counted(FRACTION, CURVE, rows=300, level=0.95, reading=at(share)) for share in (0.5, 0))
    expected = counted_difference(after, before, 0.95)
    assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))
    for rows, reading in ((300, RISES), (300, LARGEST_RISE), (None, AREA), (None, change_at(0.5))):
        none = counted(FRACTION, CURVE, rows=rows, level=0.95, reading=reading)
        assert np.isnan(none.low) and np.isnan(none.high) and decide(none) == UNDECIDED
        assert none.value == pytest.approx(reading.weigh(FRACTION, CURVE) @ CURVE)


def test_a_threshold_is_met_or_not_where_counts_tell():
    own = counted(FRACTION, CURVE, rows=1000, level=0.95, reading=at(0.25))
    assert [decide(beyond(own, above)) for above in (0.8, own.value, 0.99)] == [HOLDS, UNDECIDED, FAILS]
    assert beyond(own, 0.8).value == pytest.approx(own.value - 0.8) and beyond(own, 0.8).p < 0.001
