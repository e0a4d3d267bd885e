"""Curves of the tidy table: runs and random trials, told apart."""

import pandas as pd
import pytest

from gnorm.files import atomic
from gnorm.statistics import tidy
from gnorm.statistics.columns import STEPS, TRIALS, read_csv
from gnorm.statistics.results import curves, of_run_0


def write(path, numbers, **columns):
    """A table of two levels, an accuracy of its own in each file."""
    levels = [dict.fromkeys(numbers, 1) | {"heads_pruned": n, "heads_left": 4 - n} | columns for n in (0, 4)]
    with atomic(path) as temporary:
        pd.DataFrame(levels).to_csv(temporary, index=False)
    return str(path)


@pytest.fixture
def table(tmp_path):
    """Model A has one model for both runs, B one for each; both have two random trials a model."""

    def run(model, number):
        path = write(tmp_path / f"{model}{number}.csv", STEPS, run=number, accuracy=0.1 * number)
        return path, model, "gnorm"

    def trials(model, accuracy, *of_run):
        paths = [write(tmp_path / f"{model}{accuracy}{n}", TRIALS, trial=n, accuracy=accuracy + n) for n in range(2)]
        path = tmp_path / f"{model}{accuracy}.csv"
        with atomic(path) as temporary:
            pd.concat(map(pd.read_csv, paths)).to_csv(temporary, index=False)
        return str(path), model, "random", *of_run

    made = tidy.joined(
        trajectories=[run(model, number) for model in "AB" for number in range(2)],
        random=[trials("A", 10), trials("B", 20, 0), trials("B", 30, 1)],
        units={"gnorm": "heads", "random": "heads"},
        metrics=(),
    )
    made.to_csv(tmp_path / "tidy.csv", index=False)
    return read_csv(tmp_path / "tidy.csv")


def test_random_trials_are_of_the_run_whose_model_they_prune(table):
    drawn = table[table["strategy"] == "random"]
    assert drawn[drawn["model"] == "A"]["run"].isna().all()
    found = drawn[drawn["model"] == "B"].groupby(["run", "trial"])["accuracy"].first()
    assert found.to_dict() == {(0, 0): 20, (0, 1): 21, (1, 0): 30, (1, 1): 31}


@pytest.mark.parametrize(
    ("model", "strategy", "accuracies", "first"),
    [
        ("A", "gnorm", [0, 0.1], [0]),
        ("A", "random", [10, 11], [10, 11]),  # of the model of both runs
        ("B", "random", [20, 21, 30, 31], [20, 21]),
    ],
)
def test_every_run_and_trial_is_a_curve_and_those_of_run_0_come_first(table, model, strategy, accuracies, first):
    found = curves(table, model, strategy)
    assert [len(curve) for curve in found] == [2] * len(accuracies)
    assert [curve["accuracy"].iloc[0] for curve in found] == accuracies
    assert [curve["accuracy"].iloc[0] for curve in of_run_0(found)] == first
