"""Estimates from files of outcomes, and from curves where only counts are known."""

import numpy as np
import pandas as pd
import pytest

from gnorm.statistics import outcomes
from gnorm.statistics.binomial import counted, counted_difference
from gnorm.statistics.curves import accuracy_at, area
from gnorm.statistics.estimates import Measure, Missing, OfCounts, OfRows
from gnorm.statistics.intervals import Bootstrap
from gnorm.statistics.readings import RISES, at, change_at

LEVELS, ROWS = np.arange(0, 9, 2), 120


def made(seed, curves, first=0, slope=1.0, criterion=None, levels=LEVELS):
    """Rows that turn wrong one after another, sooner with a larger slope."""
    rng = np.random.default_rng(seed)
    ends = rng.random((curves, 1, ROWS))
    right = (ends > slope * 0.9 * levels[:, None] / 8).reshape(-1, ROWS)
    values = {"heads": 8, "row": np.arange(ROWS), "answers": np.ones(ROWS), "label": np.ones(ROWS)}
    values |= {"curve": np.repeat(np.arange(first, first + curves), len(levels)), "predicted": right}
    values |= {"heads_pruned": np.tile(levels, curves), "loss": 0.0 * right, "confidence": 0.0 * right}
    kept = outcomes.Outcomes.from_arrays(values)
    return kept.ordered_by(criterion) if criterion else kept


@pytest.fixture
def rows(tmp_path):
    """Model A has one model for its three runs, in two parts; B has one for each of two runs."""
    files = {"runs": [], "trials": [], "compared": []}

    def keep(kind, name, kept, *of):
        path = str(tmp_path / f"{name}.rows.npz")
        outcomes.write(path, kept)
        files[kind].append((path, *of))

    for slope, name in ((0.6, "gnorm"), (1.0, "ae")):
        keep("runs", f"A{name}0-1", made(1, 2, 0, slope), "A", name)
        keep("runs", f"A{name}2-2", made(2, 1, 2, slope), "A", name)
        for run in range(2):
            keep("runs", f"B{name}{run}", made(3 + run, 1, run, slope), "B", name)
    keep("runs", "Ashort", made(5, 1, levels=LEVELS[:3]), "A", "short")
    for first in (0, 4):
        keep("trials", f"A{first}", made(6 + first, 4, first, 1.2), "A", "random", None)
    for run in range(2):
        keep("trials", f"Btrials{run}", made(7 + run, 4, 0, 1.2), "B", "random", run)
    keep("compared", "A0-2", outcomes.join([made(8, 3, 0, s, c) for s, c in ((0.8, "magnitude"), (1, "fisher"))]), "A")
    return OfRows(Bootstrap(0.95, 400, 1), **files)


def naive(path, number):
    """The mean over the runs or trials of one file, from its accuracies."""
    kept = outcomes.read(path)
    own = [kept.of_curve(curve) for curve in dict.fromkeys(kept.curve.tolist())]
    return [number(curve.fraction_pruned, curve.accuracy) for curve in own]


def mean_of(files, number, *of):
    return np.mean([value for path, *own in files if own[: len(of)] == list(of) for value in naive(path, number)])


@pytest.mark.parametrize("model", ["A", "B"])
def test_differences_are_those_of_the_curves_averaged_over_runs_and_trials(rows, model):
    half = Measure("gnorm", "ae", at(0.5))
    found = rows.measured(model, [Measure("gnorm", "ae"), half, Measure("gnorm", "random")])
    for measured, number in zip(found, (area, lambda *c: accuracy_at(*c, 0.5), area), strict=True):
        other = measured.measure.other
        expected = [mean_of(rows.runs, number, model, "gnorm")]
        expected.append(mean_of(rows.trials if other == "random" else rows.runs, number, model, other))
        assert measured.values == pytest.approx(expected)
        assert measured.estimate.value == pytest.approx(expected[0] - expected[1])
        assert measured.estimate.low < measured.estimate.value < measured.estimate.high
        assert measured.estimate.rows == ROWS and len(measured.estimate.runs) == {"A": 3, "B": 2}[model]
        assert measured.estimate.trials == (8 if other == "random" else 0)


def test_alone_with_a_threshold_of_criteria_and_of_random_orders(rows):
    (at_half,) = rows.measured("A", [Measure("gnorm", reading=at(0.5), above=0.7)])
    assert at_half.values[0] == pytest.approx(at_half.estimate.value + 0.7)
    (loss,) = rows.measured("A", [Measure("gnorm", reading=change_at(0.5), above=-0.1)])
    assert loss.estimate.value == pytest.approx(at_half.values[0] - 1 + 0.1)
    (criterion,) = rows.measured("A", [Measure("magnitude", "random", is_criterion=True)])
    expected = np.mean([area(LEVELS / 8, made(8, 3, 0, 0.8).of_curve(run).accuracy) for run in range(3)])
    assert criterion.values[0] == pytest.approx(expected)
    (drawn,) = rows.measured("B", [Measure("random")])
    assert drawn.values[0] == pytest.approx(mean_of(rows.trials, area, "B", "random"))
    assert drawn.estimate.value == pytest.approx(drawn.values[0]) and drawn.estimate.trials == 8


def test_measures_of_all_rows_and_of_every_other_row_go_together(rows):
    whole, half = rows.measured("A", [Measure("gnorm", "ae"), Measure("gnorm", "ae", RISES)])
    assert (whole.estimate.rows, half.estimate.rows) == (ROWS, ROWS // 2)


@pytest.mark.parametrize(
    "measure,said",
    [
        (Measure("gnorm", "fisher"), "add the strategy `fisher` to config.yaml"),
        (Measure("taylor", "random", is_criterion=True), "add `taylor` to `compare`"),
        (Measure("short", "ae"), "`short` ends before the last head: set `stop: {}`"),
        (Measure("gnorm", "short", at(0.9)), "`short` ends before the last head"),
    ],
)
def test_what_is_missing_says_how_to_get_it(rows, measure, said):
    with pytest.raises(Missing) as raised:
        rows.measured("A", [measure])
    assert said in str(raised.value)


def test_curves_alone_give_the_widest_intervals():
    fraction, one, other = LEVELS / 8, np.linspace(0.9, 0.5, 5), np.linspace(0.9, 0.2, 5)
    trials = [other - 0.02, other + 0.02]
    parts = [("gnorm", 0, None, one), *(("random", None, i, own) for i, own in enumerate(trials))]
    columns = ("strategy", "run", "trial", "accuracy")
    tidy = pd.concat(
        pd.DataFrame({"model": "A", "heads_pruned": LEVELS, "fraction_pruned": fraction}).assign(
            **dict(zip(columns, own, strict=True))
        )
        for own in parts
    )
    source = OfCounts(tidy, {"A": 500}, 0.95)
    (found,) = source.measured("A", [Measure("gnorm", "random")])
    assert found.estimate == counted_difference(
        counted(fraction, one, 500, 0.95), counted(fraction, trials, 500, 0.95), 0.95
    )
    (above,) = source.measured("A", [Measure("gnorm", "random", above=0.1)])
    assert above.estimate.low == pytest.approx(found.estimate.low - 0.1)
    (unknown,) = OfCounts(tidy, {}, 0.95).measured("A", [Measure("gnorm", "random")])
    assert unknown.estimate.value == pytest.approx(found.estimate.value) and np.isnan(unknown.estimate.low)
    for measure in (Measure("ae"), Measure("gnorm", "random", is_criterion=True)):
        with pytest.raises(Missing):
            source.measured("A", [measure])
    with pytest.raises(Missing, match="ends before"):
        OfCounts(tidy[tidy["heads_pruned"] < 8], {"A": 500}, 0.95).measured("A", [Measure("gnorm")])
