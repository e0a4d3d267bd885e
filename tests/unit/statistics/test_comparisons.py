"""All pairs of criteria: corrected p-values, letters, and how often what is alike is told apart."""

from itertools import combinations

import numpy as np
import pytest

from gnorm.statistics.comparisons import compare, holm, letters
from gnorm.statistics.intervals import Bootstrap, Contrast, Lines

BOOTSTRAP = Bootstrap(level=0.95, resamples=1000, seed=5)
ROWS = 150


def criteria(rng, effects, runs=1):
    easy, numbers = 0.3 * rng.standard_normal(ROWS), np.arange(ROWS)
    return {
        name: Lines(easy + effect + 0.2 * rng.standard_normal((runs, ROWS)), np.ones(ROWS), numbers, tuple(range(runs)))
        for name, effect in effects.items()
    }


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1, 1] and holm([]) == []
    assert holm([0.02, float("nan")]) == [0.04, 1]


@pytest.mark.parametrize("seed", range(30))
def test_two_share_a_letter_unless_they_are_apart(seed):
    rng = np.random.default_rng(seed)
    names = [f"n{i}" for i in range(rng.integers(2, 9))]
    pairs = [frozenset(pair) for pair in combinations(names, 2)]
    apart = {pair for pair in pairs if rng.random() < rng.choice([0.1, 0.5, 0.9])}
    found = letters(names, apart)
    assert all(found.values()) and "a" in found[names[0]]
    for pair in pairs:
        one, other = pair
        assert bool(set(found[one]) & set(found[other])) == (pair not in apart)


def test_letters_by_hand():
    apart = {frozenset("ac"), frozenset("ad"), frozenset("bd")}
    assert letters("abcd", apart) == {"a": "a", "b": "ab", "c": "bc", "d": "c"}
    assert letters("abc", ()) == {"a": "a", "b": "a", "c": "a"}
    assert letters([], ()) == {}


def test_the_best_come_first_and_the_rest_are_apart():
    named = criteria(np.random.default_rng(1), {"low": 0.3, "high": 0.7, "also high": 0.7}, runs=3)
    rng = np.random.default_rng(2)
    trials = Lines(
        named["low"].values[:1] - 0.2 + 0.2 * rng.standard_normal((20, ROWS)),
        np.ones(ROWS),
        np.arange(ROWS),
        tuple(range(20)),
    )
    found = compare(BOOTSTRAP, named, {"random": trials})
    assert (
        list(found.estimates)[2:] == ["low", "random"] and found.groups["low"] == "b" and found.groups["random"] == "c"
    )
    assert found.groups["high"] == found.groups["also high"] == "a"
    assert {(pair.one, pair.other) for pair in found.pairs if not pair.differ} == {("high", "also high")}
    assert found.estimates["random"].trials == 20 and found.estimates["random"].value == pytest.approx(
        trials.values.mean()
    )
    (pair,) = [pair for pair in found.pairs if (pair.one, pair.other) == ("high", "random")]
    (alone,) = BOOTSTRAP.estimate(Contrast.with_random(named["high"], trials))
    assert pair.estimate.value == alone.value and (pair.estimate.low, pair.estimate.high) == (alone.low, alone.high)


def test_many_pairs_are_resampled_more_often():
    """Else the least p-value that resampling can find, times their number, would decide nothing."""
    effects = {f"n{i}": i / 4 for i in range(16)}
    found = compare(BOOTSTRAP, criteria(np.random.default_rng(1), effects))
    assert len(found.pairs) == 120 and all(pair.differ for pair in found.pairs)


@pytest.mark.parametrize("runs", [1, 5])
def test_what_is_alike_is_rarely_told_apart(runs):
    """Any of ten pairs, in at most one comparison of twenty."""
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(120):
        found = compare(BOOTSTRAP, criteria(rng, dict.fromkeys("abcde", 0.5), runs))
        wrong += any(pair.differ for pair in found.pairs)
    assert wrong / 120 <= 0.05 + 2 * (0.05 * 0.95 / 120) ** 0.5
