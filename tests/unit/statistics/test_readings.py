"""What is read off curves: against definitions, and against planted curves where points are chosen."""

import math
from itertools import pairwise

import numpy as np
import pytest

from gnorm.statistics.curves import accuracy_at, area
from gnorm.statistics.intervals import FAILS, HOLDS, Bootstrap, Contrast, decide, lines_of
from gnorm.statistics.outcomes import Outcomes
from gnorm.statistics.readings import (
    AREA,
    LARGEST_RISE,
    RISES,
    at,
    change_at,
    later_than_earlier,
    mean_between,
)

FRACTION, ACCURACY = np.array([0, 0.1, 0.5, 0.6, 1.0]), np.array([0.9, 0.91, 0.7, 0.72, 0.3])


def number(reading, fraction=FRACTION, accuracy=ACCURACY):
    return reading.weigh(fraction, accuracy) @ accuracy


def test_areas_and_accuracies():
    assert number(AREA) == pytest.approx(area(FRACTION, ACCURACY)) == pytest.approx(number(mean_between(0, 1)))
    for share in (0, 0.05, 0.1, 0.3, 0.99, 1):
        assert number(at(share)) == pytest.approx(accuracy_at(FRACTION, ACCURACY, share))
        assert number(change_at(share)) == pytest.approx(accuracy_at(FRACTION, ACCURACY, share) - 0.9)
    for first, last in ((0, 0.5), (0.5, 1), (0.05, 0.55), (0.2, 0.3)):
        fine = np.linspace(first, last, 100_001)
        expected = np.interp(fine, FRACTION, ACCURACY).mean()
        assert number(mean_between(first, last)) == pytest.approx(expected, abs=1e-5)
    gap = number(mean_between(0.5, 1)) - number(mean_between(0, 0.5))
    assert number(later_than_earlier(0.5)) == pytest.approx(gap)


def test_what_a_curve_does_not_reach_is_not_read_off_it():
    short = FRACTION[:4], ACCURACY[:4]
    for reading in (AREA, at(0.7), mean_between(0.5, 1), later_than_earlier(0.5), change_at(0.61)):
        assert np.isnan(reading.weigh(*short)).all()
    assert number(at(0.55), *short) == pytest.approx(0.71)
    assert number(mean_between(0, 0.6), *short) == pytest.approx(area(FRACTION[:4] / 0.6, ACCURACY[:4]))


@pytest.mark.parametrize("seed", range(20))
def test_chosen_points_against_loops(seed):
    accuracy = np.random.default_rng(seed).random(9)
    fraction = np.linspace(0, 1, 9)
    pairs = [accuracy[j] - accuracy[i] for i in range(9) for j in range(i + 1, 9)]
    assert number(LARGEST_RISE, fraction, accuracy) == pytest.approx(max(pairs))
    assert number(RISES, fraction, accuracy) == pytest.approx(sum(max(0, b - a) for a, b in pairwise(accuracy)))
    for reading in (LARGEST_RISE, RISES, change_at(0.3), later_than_earlier(0.5)):
        assert reading.is_change and reading.weigh(fraction, accuracy).sum() == pytest.approx(0)


def rows_of(rng, curve, rows):
    """Rows that are each right by chance; some are hard at all steps."""
    right = rng.random((len(curve), rows)) < curve[:, None]
    steps = np.arange(len(curve))
    values = {"heads": steps[-1], "row": np.arange(rows), "answers": np.ones(rows), "curve": 0 * steps}
    values |= {"heads_pruned": steps, "loss": np.zeros(right.shape), "confidence": np.ones(right.shape)}
    return Outcomes.from_arrays(values | {"label": np.ones(rows), "predicted": right.astype(int)})


BOOTSTRAP = Bootstrap(level=0.95, resamples=1000, seed=3)
FLAT, FALLING = np.full(25, 0.8), np.linspace(0.9, 0.3, 25)
DENTED = FLAT - 0.15 * (np.arange(25) == 12)


def judged(reading, curve, *, above=0.0, other=None, times=200, rows=200):
    """Statuses and estimates of many draws of rows."""
    rng, contrasts = np.random.default_rng([len(curve), rows, times]), []
    for _ in range(times):
        lines = lines_of(rows_of(rng, curve, rows), reading)
        if other is not None:
            contrasts.append(Contrast.between(lines, lines_of(rows_of(rng, other, rows), reading)))
        else:
            contrasts.append(Contrast(lines, is_difference=reading.is_change, above=above))
    found = BOOTSTRAP.estimate(*contrasts)
    statuses = [decide(estimate) for estimate in found]
    return statuses.count(HOLDS) / times, statuses.count(FAILS) / times, np.mean([e.value for e in found])


def test_chance_is_no_rise():
    """A flat curve always seems to rise on the rows that say where; the other rows see that it does not."""
    own = rows_of(np.random.default_rng(0), FLAT, 200)
    naive = LARGEST_RISE.weigh(own.fraction_pruned, own.accuracy) @ own.accuracy
    assert naive > 0.08
    for reading in (LARGEST_RISE, RISES):
        holds, _, value = judged(reading, FLAT)
        assert holds <= 0.05 and abs(value) < 0.02
    holds, fails, value = judged(LARGEST_RISE, FALLING)
    assert holds <= 0.05 and value < 0.01
    holds, fails, value = judged(LARGEST_RISE, DENTED, rows=400, times=100)
    assert holds > 0.9 and fails == 0 and value == pytest.approx(0.15, abs=0.03)


def test_more_rises_are_told_from_fewer():
    saw = FLAT - 0.2 * (np.arange(25) % 2)
    assert judged(RISES, saw, other=FLAT, times=40)[0] > 0.9
    holds, fails, _ = judged(RISES, saw, other=saw)
    assert holds <= 0.05 and fails <= 0.05


@pytest.mark.parametrize(("accuracy", "holds", "fails"), [(0.9, 0.05, 0.05), (0.97, 1, 0), (0.8, 0, 1)])
def test_a_threshold(accuracy, holds, fails):
    held, failed, value = judged(at(0.8), np.full(25, accuracy), above=0.9, rows=300)
    assert abs(held - holds) <= 0.05 and abs(failed - fails) <= 0.05
    assert value == pytest.approx(accuracy - 0.9, abs=0.005)


def test_no_row_that_differs_is_no_proof_of_a_small_difference():
    """With 40 rows 7% may still differ, with 2000 not even 1%."""
    for rows, status in ((40, False), (2000, True)):
        right = np.ones((3, rows))
        values = {"heads": 2, "row": np.arange(rows), "answers": np.ones(rows), "curve": [0] * 3}
        values |= {"heads_pruned": [0, 1, 2], "loss": right, "confidence": right}
        kept = Outcomes.from_arrays(values | {"label": np.ones(rows), "predicted": right})
        (found,) = BOOTSTRAP.estimate(Contrast(lines_of(kept, change_at(0.5)), above=-0.01))
        assert found.value == pytest.approx(0.01) and (decide(found) == HOLDS) is status
        assert found.high - found.low > 1 / rows and not math.isnan(found.p)
