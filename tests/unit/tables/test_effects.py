"""Tables with intervals: differences of strategies, and criteria that cannot be told apart."""

import numpy as np
import pandas as pd
import pytest

from gnorm.statistics import outcomes
from gnorm.statistics.curves import accuracy_at, area
from gnorm.statistics.results import Results
from gnorm.tables import areas, criteria, effects

STRATEGIES = {name: {"drawn": name == "random"} for name in ("greedy_gnorm", "ae", "gone", "random")}
SETTINGS = {"strategy": "greedy_gnorm", "intervals": {"level": 0.95, "resamples": 400, "seed": 1}}
ROWS, PRUNED = 200, np.arange(0, 9, 2)


def kept(seed, curves, slope, criterion=None):
    """Rows that turn wrong one after another, sooner with a larger slope."""
    ends = np.random.default_rng(seed).random((curves, 1, ROWS))
    right = (ends > slope * 0.9 * PRUNED[:, None] / 8).reshape(-1, ROWS)
    values = {"heads": 8, "row": np.arange(ROWS), "answers": np.ones(ROWS), "label": np.ones(ROWS)}
    values |= {"curve": np.repeat(np.arange(curves), len(PRUNED)), "predicted": right}
    values |= {"heads_pruned": np.tile(PRUNED, curves), "loss": 0.0 * right, "confidence": 0.0 * right}
    made = outcomes.Outcomes.from_arrays(values)
    return made.ordered_by(criterion) if criterion else made


@pytest.fixture
def made():
    return {"greedy_gnorm": kept(1, 2, 0.5), "ae": kept(2, 2, 0.9), "random": kept(3, 6, 0.8)}


@pytest.fixture
def results(tmp_path, made):
    rows, files = [], {"runs": [], "trials": []}
    for name, own in made.items():
        path = str(tmp_path / f"{name}.rows.npz")
        outcomes.write(path, own)
        files["trials" if name == "random" else "runs"].append((path, "M", name, *[None] * (name == "random")))
        for curve, pruned, accuracy in zip(own.curve, own.heads_pruned, own.accuracy, strict=True):
            which = {"trial": curve} if name == "random" else {"run": curve}
            row = {"model": "M", "strategy": name, "unit": "heads", "heads_pruned": pruned, "heads_left": 8 - pruned}
            rows.append(row | which | {"fraction_pruned": pruned / 8, "accuracy": accuracy})
    pd.DataFrame(rows).to_csv(tmp_path / "tidy.csv", index=False)
    return Results(tmp_path, {"M": "Model"}, STRATEGIES, effects.NEEDS, outcomes=files)


def mean(own, number):
    curves = [own.of_curve(curve) for curve in dict.fromkeys(own.curve.tolist())]
    return np.mean([number(curve.fraction_pruned, curve.accuracy) for curve in curves])


def test_effects_are_differences_of_means_in_points(results, made):
    table = effects.make(results, SETTINGS).set_index("against")
    assert list(table.index) == ["ae", "random"]  # the one that has no curves is left out
    for other, row in table.iterrows():
        for name, number in (("area", area), ("at 50%", lambda *curve: accuracy_at(*curve, 0.5))):
            expected = mean(made["greedy_gnorm"], number) - mean(made[other], number)
            assert row[name] == pytest.approx(100 * expected) and row[f"{name} low"] < row[name] < row[f"{name} high"]
    assert table["trials"].to_dict() == {"ae": 0, "random": 6} and set(table["rows"]) == {ROWS}


def test_areas_have_their_interval_and_differences_both_ways(results, made):
    table = areas.make(results, SETTINGS).set_index("strategy")
    effect = effects.make(results, SETTINGS).set_index("against")
    assert list(table.index) == ["greedy_gnorm", "ae", "random"]
    for name, row in table.iterrows():
        assert row["area mean"] == pytest.approx(mean(made[name], area))
        assert row["low"] < row["area mean"] < row["high"]
        assert np.isnan(row["to greedy_gnorm"]) == (name == "greedy_gnorm")
        assert np.isnan(row["to random"]) == (name == "random")
    for other in ("ae", "random"):
        back = -100 * table.loc[other, ["to greedy_gnorm", "to greedy_gnorm high", "to greedy_gnorm low"]]
        assert back.tolist() == pytest.approx(effect.loc[other, ["area", "area low", "area high"]].tolist(), abs=0.1)
    forth = 100 * table.loc["greedy_gnorm", ["to random", "to random low", "to random high"]]
    assert forth.tolist() == pytest.approx(effect.loc["random", ["area", "area low", "area high"]].tolist())


def test_what_ends_early_has_the_shares_that_it_reaches(results, tmp_path):
    short = outcomes.read(tmp_path / "ae.rows.npz")
    outcomes.write(tmp_path / "ae.rows.npz", short._chosen(short.heads_pruned <= 4))
    row = effects.make(results, SETTINGS).set_index("against").loc["ae"]
    assert np.isnan(row["area"]) and np.isnan(row["at 75%"]) and row["at 50% low"] < row["at 50%"]
    assert row["runs"] == 2 and row["rows"] == ROWS


def test_curves_alone_have_values_and_no_interval(results):
    results.outcomes = {}
    table = effects.make(results, SETTINGS).set_index("against")
    assert table["area"].notna().all() and table["area low"].isna().all() and (table["runs"] == 1).all()


def test_criteria_that_are_alike_share_a_letter(tmp_path, made):
    both = outcomes.join([kept(*own, name) for *own, name in ((1, 2, 0.5, "a"), (4, 2, 0.5, "b"), (5, 2, 1.0, "c"))])
    for name, own in (("compared", both), ("random", made["random"])):
        outcomes.write(tmp_path / f"{name}.npz", own)
    files = {"compared": [(str(tmp_path / "compared.npz"), "M")]}
    files["trials"] = [(str(tmp_path / "random.npz"), "M", "random", None)]
    source = criteria.OfRows(criteria.Bootstrap(**SETTINGS["intervals"]), **files)
    found = criteria.apart(source, "M", ["a", "b", "c"], ["random"])
    groups = {name: set(own["group"]) for name, own in found.items()}
    assert groups["a"] & groups["b"] and not groups["a"] & groups["c"] and not groups["a"] & groups["random"]
    assert found["c"]["low"] < mean(both.of_criterion("c"), area) < found["c"]["high"]
