"""Intervals: against loops, and against planted effects in simulations."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support import run_python

from gnorm.statistics.curves import accuracy_at, area
from gnorm.statistics.intervals import (
    FAILS,
    FEWEST,
    HOLDS,
    UNDECIDED,
    Bootstrap,
    Contrast,
    Lines,
    decide,
    drawn,
    lines_of,
    needed,
)
from gnorm.statistics.outcomes import Outcomes, join
from gnorm.statistics.readings import AREA, at

BOOTSTRAP = Bootstrap(level=0.95, resamples=1000, seed=5)


def read(share):
    return AREA if share is None else at(share)


def outcomes(seed, curves=1, rows=60, steps=7, text=False, run=0):
    """Curves that fall while rows turn wrong at times of their own."""
    rng = np.random.default_rng(seed)
    answers = rng.integers(0 if text else 1, 9 if text else 2, size=rows)
    ends = rng.random(rows) + 0.3 * rng.standard_normal((curves, 1, rows))
    chances = 1 / (1 + np.exp(8 * (np.arange(steps)[:, None] / (steps - 1) - ends)))
    right = rng.binomial(answers, chances).reshape(curves * steps, rows)
    values = {"heads": 2 * (steps - 1), "row": np.arange(rows) + 3, "answers": answers}
    values |= {
        "curve": np.repeat(np.arange(run, run + curves), steps),
        "heads_pruned": np.tile(2 * np.arange(steps), curves),
    }
    values["loss"] = rng.random(right.shape)
    if text:
        return Outcomes.from_arrays(values | {"right_tokens": right})
    label = rng.integers(3, size=rows)
    predicted = np.where(right, label, (label + 1) % 3)
    return Outcomes.from_arrays(values | {"label": label, "predicted": predicted, "confidence": values["loss"]})


@pytest.mark.parametrize("share", [None, 0.0, 0.25, 0.4, 1.0])
@pytest.mark.parametrize("text", [False, True])
def test_a_number_is_a_sum_over_rows(share, text):
    kept = outcomes(1, curves=3, text=text, run=4)
    found = lines_of(kept, read(share))
    assert found.curves == (4, 5, 6) and found.values.shape == (3, 60)
    for curve, value in zip(found.curves, found.estimates, strict=True):
        own = kept.of_curve(curve)
        fraction, accuracy = own.fraction_pruned, own.accuracy
        expected = area(fraction, accuracy) if share is None else accuracy_at(fraction, accuracy, share)
        assert value == pytest.approx(expected, abs=1e-12)


def test_criteria_are_not_mixed():
    kept = outcomes(1)
    both = join([kept.ordered_by("gnorm"), kept.ordered_by("taylor")])
    with pytest.raises(ValueError, match="of_criterion"):
        lines_of(both)
    assert lines_of(both.of_criterion("taylor")).estimates == lines_of(kept).estimates


def naive(kept, times, share):
    """The number of each curve where rows count so often, by the definition."""
    found = []
    for curve in dict.fromkeys(kept.curve.tolist()):
        own = kept.of_curve(curve)
        accuracy = [sum(n * r for n, r in zip(times, row, strict=True)) for row in own.right.astype(int).tolist()]
        fraction = own.fraction_pruned
        found.append(area(fraction, accuracy) if share is None else accuracy_at(fraction, accuracy, share))
    return np.mean(found)


@pytest.mark.parametrize("share", [None, 0.5])
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("runs", [1, 3])
def test_it_equals_the_loop_over_resamples(share, text, runs):
    one, other = outcomes(1, runs, 30, text=text), replace(outcomes(2, runs, 30, text=text))
    other = replace(
        other, answers=one.answers, **({"right_tokens": np.minimum(other.right, one.answers)} if text else {})
    )
    bootstrap = Bootstrap(0.9, 200, 7)
    contrast = Contrast.between(lines_of(one, read(share)), lines_of(other, read(share)))
    differing = [value for value in contrast.lines.values.mean(0) if value]
    usual, mean = math.sqrt(sum(value**2 for value in differing) / len(differing)), one.answers.mean()
    values = []
    for times in np.concatenate(list(drawn(32, 200, 7))).astype(int).tolist():
        total = sum(n * d for n, d in zip(times, [*one.answers.tolist(), mean, mean], strict=True))
        difference = naive(one, times[:30], share) - naive(other, times[:30], share)
        values.append((difference + (times[30] - times[31]) * usual) / total)
    (found,) = bootstrap.estimate(contrast)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(values, [0.05, 0.95])), abs=1e-12)
    assert found.error == pytest.approx(np.std(values)) and found.rows == 30 and len(found.runs) == runs
    everything = [1] * 30
    expected = (naive(one, everything, share) - naive(other, everything, share)) / one.answers.sum()
    assert found.value == pytest.approx(expected) == np.mean(found.runs)


def test_every_row_is_drawn_as_often_as_by_chance():
    times = np.concatenate(list(drawn(40, 5000, 1)))
    assert times.shape == (5000, 40) and (times.sum(1) == 40).all()
    assert times.mean(0) == pytest.approx(np.ones(40), abs=0.08)
    assert times.var(0).mean() == pytest.approx(1 - 1 / 40, abs=0.02)
    assert np.array_equal(times, np.concatenate(list(drawn(40, 5000, 1))))
    assert not np.array_equal(times, np.concatenate(list(drawn(40, 5000, 2))))


def test_an_estimate_does_not_depend_on_what_is_estimated_with_it():
    curves = [lines_of(outcomes(seed, 2)) for seed in range(3)]
    contrasts = [Contrast.between(curves[0], own) for own in curves[1:]] + [Contrast.of(own) for own in curves]
    together = BOOTSTRAP.estimate(*contrasts)
    for contrast, found in zip(contrasts, together, strict=True):
        (alone,) = BOOTSTRAP.estimate(contrast)
        assert (alone.low, alone.high, alone.value) == pytest.approx((found.low, found.high, found.value))


def test_what_cannot_be_estimated_is_undecided():
    kept = outcomes(1)
    short = kept._chosen(slice(0, 4))  # ends at half of the heads
    for share in (None, 0.75):
        (found,) = BOOTSTRAP.estimate(Contrast.between(lines_of(short, read(share)), lines_of(kept, read(share))))
        assert math.isnan(found.value) and math.isnan(found.low) and math.isnan(found.p)
        assert decide(found) == UNDECIDED and needed(found, "rows", 0.95) is None
    reached, not_reached = BOOTSTRAP.estimate(
        Contrast.between(lines_of(short, at(0.25)), lines_of(kept, at(0.25))), Contrast.of(lines_of(short))
    )
    assert reached.value == 0 and math.isnan(not_reached.low)
    (one_trial,) = BOOTSTRAP.estimate(Contrast.with_random(lines_of(kept), lines_of(outcomes(2))))
    assert decide(one_trial) == UNDECIDED and math.isnan(one_trial.low) and not math.isnan(one_trial.value)


def test_only_what_was_measured_on_the_same_rows_is_compared():
    one = lines_of(outcomes(1))
    other = replace(one, row=one.row + 1)
    for make in (Contrast.between, Contrast.with_random):
        with pytest.raises(ValueError, match="measured on different rows"):
            make(one, other)
    with pytest.raises(ValueError, match="no run is in both"):
        Contrast.between(one, replace(one, curves=(9,)))
    assert Contrast.between(lines_of(outcomes(1, 3)), replace(one, curves=(2,))).lines.curves == (2,)


def test_the_same_curve_is_no_difference():
    one = lines_of(outcomes(1, 2))
    (found,) = BOOTSTRAP.estimate(Contrast.between(one, one))
    assert (found.value, found.low, found.high, found.p) == (0, 0, 0, 1) and decide(found) == UNDECIDED


def estimate(low, high, runs):
    (some,) = BOOTSTRAP.estimate(Contrast.of(lines_of(outcomes(1))))
    return replace(some, value=float(np.mean(runs)), low=low, high=high, runs=runs)


@pytest.mark.parametrize(
    "low,high,runs,expected",
    [
        (0.1, 0.3, (0.2,), HOLDS),
        (-0.3, -0.1, (-0.2,), FAILS),
        (-0.1, 0.3, (0.1,), UNDECIDED),
        (0.0, 0.3, (0.1,), UNDECIDED),
        (0.1, 0.3, (0.5, 0.3, -0.01), UNDECIDED),  # a run contradicts
        (0.1, 0.3, (0.5, 0.3, 0.0), HOLDS),
        (-0.3, -0.1, (-0.5, -0.3, 0.01), UNDECIDED),
        (0.1, 0.3, (0.5, 0.5, 0.5, 0.5, -0.5), HOLDS),  # the interval knows of it
        (math.nan, math.nan, (math.nan,), UNDECIDED),
    ],
)
def test_decisions(low, high, runs, expected):
    assert decide(estimate(low, high, runs)) == expected


# --- simulations: a planted effect, and how often intervals cover it --------------------------------------------------

ROWS, EFFECT = 160, 0.04


def simulated(rng, times, runs, *, of_runs, of_rows, of_both, effect=EFFECT, rows=ROWS):
    """Differences with noise of runs, of rows and of both: the contrasts, and what is true of their runs' models."""
    own = effect + of_runs * rng.standard_normal((times, runs))
    noise = of_rows * rng.standard_normal((times, 1, rows)) + of_both * rng.standard_normal((times, runs, rows))
    ones, numbers = np.ones(rows), np.arange(rows)
    contrasts = [Contrast(Lines(values, ones, numbers, tuple(range(runs)))) for values in own[..., None] + noise]
    return contrasts, own.mean(1)


NOISE = {  # standard deviations of runs, of rows, of both
    "rows alone": (0, 0.3, 0.1),
    "runs whose rows differ": (0, 0.1, 0.3),
    "a small run effect": (0.01, 0.15, 0.3),
    "a run effect": (0.03, 0.15, 0.3),
    "a large run effect": (0.1, 0.1, 0.1),
}


def coverage(found, true):
    return np.mean([estimate.low <= value <= estimate.high for estimate, value in zip(found, true, strict=True)])


def held(found, status=HOLDS):
    return np.mean([decide(estimate) == status for estimate in found])


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("runs", [1, 3, 5, 10])
def test_intervals_cover_what_they_claim_to(runs, noise, times=500):
    """With fewer than five runs that is the mean of these runs' models, with more that of all such runs."""
    of_runs, of_rows, of_both = NOISE[noise]
    rng = np.random.default_rng([runs, *noise.encode()])
    contrasts, of_these = simulated(rng, times, runs, of_runs=of_runs, of_rows=of_rows, of_both=of_both)
    true = of_these if runs < FEWEST else np.full(times, EFFECT)
    assert 0.92 <= coverage(BOOTSTRAP.estimate(*contrasts), true) <= 0.98


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("runs", [1, 3, 5, 10])
def test_nothing_holds_where_there_is_no_effect(runs, noise, times=500):
    """With fewer than five runs: no effect on these runs' models."""
    of_runs, of_rows, of_both = NOISE[noise]
    rng = np.random.default_rng([1, runs, *noise.encode()])
    contrasts, of_these = simulated(rng, times, runs, of_runs=of_runs, of_rows=of_rows, of_both=of_both, effect=0)
    if runs < FEWEST:
        contrasts = [
            replace(contrast, lines=replace(contrast.lines, values=contrast.lines.values - true))
            for contrast, true in zip(contrasts, of_these, strict=True)
        ]
    found = BOOTSTRAP.estimate(*contrasts)
    assert held(found) <= 0.05 and held(found, FAILS) <= 0.05


@pytest.mark.parametrize("runs", [3, 5])
def test_a_planted_effect_is_found(runs):
    rng = np.random.default_rng(3)
    contrasts, _ = simulated(rng, 200, runs, of_runs=0.01, of_rows=0.1, of_both=0.1, effect=0.06)
    found = BOOTSTRAP.estimate(*contrasts)
    assert held(found) > 0.9 and held(found, FAILS) == 0


@pytest.mark.parametrize("differing", [0.01, 0.03, 0.1])
def test_few_rows_that_differ_are_no_proof(differing, times=2000):
    """Accuracies at a share, where most rows are right with both strategies or with none, and nothing is better."""
    rng = np.random.default_rng(8)
    chances = [differing / 2, differing / 2, 1 - differing]
    values = rng.choice([1.0, -1.0, 0.0], p=chances, size=(times, 1, 200))
    found = BOOTSTRAP.estimate(*(Contrast(Lines(own, np.ones(200), np.arange(200), (0,))) for own in values))
    assert held(found) <= 0.05 and held(found, FAILS) <= 0.05


@pytest.mark.parametrize("accuracy", [0.5, 0.9, 0.99])
def test_intervals_of_accuracies_cover(accuracy, times=500):
    rng = np.random.default_rng(9)
    right = (rng.random((times, 1, 150)) < accuracy).astype(float)
    found = BOOTSTRAP.estimate(*(Contrast.of(Lines(own, np.ones(150), np.arange(150), (0,))) for own in right))
    assert coverage(found, [accuracy] * times) >= 0.92 and all(0 <= e.low < e.high <= 1 for e in found)
    assert accuracy > 0.95 or coverage(found, [accuracy] * times) <= 0.98  # few wrong rows are told with care


def with_trials(rng, times, runs, trials, *, own, of_trials=0.05, of_runs=0.0, effect=EFFECT):
    """A strategy beside random trials, which each run has for itself or which all share."""
    shape = (times, runs if own else 1, trials, ROWS)
    easy = 0.3 * rng.standard_normal((times, 1, ROWS))  # rows that are easy for both
    strategy = easy + effect + of_runs * rng.standard_normal((times, runs, 1))
    strategy = strategy + 0.2 * rng.standard_normal((times, runs, ROWS))
    drawn_trials = easy[:, None] + of_trials * rng.standard_normal((*shape[:-1], 1)) + 0.2 * rng.standard_normal(shape)
    ones, numbers = np.ones(ROWS), np.arange(ROWS)
    for ours, theirs in zip(strategy, drawn_trials, strict=True):
        groups = [Lines(values, ones, numbers, tuple(range(trials))) for values in theirs]
        shared = dict(enumerate(groups)) if own else groups[0]
        yield Contrast.with_random(Lines(ours, ones, numbers, tuple(range(runs))), shared)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("runs,trials", [(1, 25), (1, 5), (3, 10), (6, 10)])
def test_trials_are_resampled_too(runs, trials, own, times=400):
    rng = np.random.default_rng([runs, trials, own])
    found = BOOTSTRAP.estimate(*with_trials(rng, times, runs, trials, own=own))
    assert 0.92 <= coverage(found, [EFFECT] * times) <= 0.98
    assert {estimate.trials for estimate in found} == {trials * (runs if own else 1)}
    found = BOOTSTRAP.estimate(*with_trials(rng, times, runs, trials, own=own, effect=0))
    assert held(found) <= 0.05 and held(found, FAILS) <= 0.05


def test_rows_with_many_tokens_count_more(times=300):
    """A language model's accuracy is that of all tokens: rows with more of them are easier here."""
    rng, covered = np.random.default_rng(4), 0
    for _ in range(times):
        answers = rng.integers(1, 40, size=150)
        both = rng.binomial(answers, 0.3)
        more = rng.binomial(answers - both, 0.1 + answers / 100)  # right by the first alone
        less = rng.binomial(answers - both - more, 0.1)
        values = (more - less).astype(float)[None]
        (found,) = BOOTSTRAP.estimate(Contrast(Lines(values, answers.astype(float), np.arange(150), (0,))))
        sizes = np.arange(1, 40)
        alone = 0.1 + sizes / 100
        true = (sizes * 0.7 * (alone - (1 - alone) * 0.1)).sum() / sizes.sum()
        covered += found.low <= true <= found.high
    assert 0.92 <= covered / times <= 0.98


def test_as_many_rows_as_are_needed_find_an_effect_in_four_of_five():
    rng = np.random.default_rng(6)
    (pilot,), _ = simulated(rng, 1, 1, of_runs=0, of_rows=0.3, of_both=0, effect=0, rows=2000)
    values = pilot.lines.values - pilot.lines.values.mean() + 0.05
    (found,) = BOOTSTRAP.estimate(Contrast(replace(pilot.lines, values=values)))
    rows = needed(found, "rows", 0.95)
    assert rows == pytest.approx((0.3 / 0.05 * (1.96 + 0.84)) ** 2, rel=0.1)
    contrasts, _ = simulated(rng, 400, 1, of_runs=0, of_rows=0.3, of_both=0, effect=0.05, rows=rows)
    assert 0.73 <= held(BOOTSTRAP.estimate(*contrasts)) <= 0.87


def test_what_it_would_take_to_decide():
    some = estimate(-0.1, 0.3, (0.1, 0.12))
    some = replace(some, variances={"rows": 0.01, "runs": 0.0, "trials": 0.0}, rows=100, trials=20)
    assert needed(some, "rows", 0.95) == pytest.approx(100 * 0.01 * (2.8 / 0.11) ** 2, abs=2)
    assert needed(some, "runs", 0.95) is None  # rows alone leave too much open
    clear = replace(some, variances={"rows": 1e-5, "runs": 0.0, "trials": 1e-6})
    assert needed(clear, "runs", 0.95) == FEWEST
    varied = replace(clear, runs=(0.3, -0.1, 0.2), value=0.13)
    expected = 0.13**2 / 2.8016**2 - 1.1e-5
    assert needed(varied, "runs", 0.95) == math.ceil(np.var(varied.runs, ddof=1) / expected)
    many = replace(some, runs=(0.1,) * 6, value=0.1, variances={"rows": 1e-5, "runs": 0.001, "trials": 0.0})
    assert needed(many, "runs", 0.95) == math.ceil(6 * 0.001 / ((0.1 / 2.8016) ** 2 - 1e-5))
    assert needed(replace(clear, runs=(0.1,)), "runs", 0.95) is None
    random = replace(clear, variances={"rows": 1e-5, "runs": 0.0, "trials": 0.01}, value=0.1)
    assert needed(random, "trials", 0.95) == math.ceil(20 * 0.01 / ((0.1 / 2.8016) ** 2 - 1e-5))
    assert needed(random, "rows", 0.95) is None and needed(random, "rows", 0.95, 0.5) is None
    assert needed(replace(some, value=0.0), "rows", 0.95) is None


def test_it_needs_numpy_alone():
    imported = "import sys; from gnorm.statistics import binomial, comparisons, intervals"
    made = run_python(f"{imported}; print({{'torch', 'pandas', 'scipy'}} & set(sys.modules))")
    assert made.stdout.strip() == "set()", made.stderr


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("runs", [1, 2, 4, 5, 6, 8, 20])
def test_a_larger_simulation(runs, noise):
    test_intervals_cover_what_they_claim_to(runs, noise, 3000)
    test_nothing_holds_where_there_is_no_effect(runs, noise, 3000)
