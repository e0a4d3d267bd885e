"""Tables that put random trials beside runs, where all runs have one model and where each has its own."""

import pandas as pd
import pytest

from gnorm.statistics.results import Results
from gnorm.tables import areas, headline, random

STRATEGIES = {"greedy_gnorm": {"drawn": False}, "random": {"drawn": True}}
# Accuracy at half of the heads of two runs, and of the trials on their models.
SETTINGS = {"strategy": "greedy_gnorm", "intervals": {"level": 0.95, "resamples": 100, "seed": 1}}
REACHED, TRIALS = {0: 0.6, 1: 0.8}, {0: [0.5, 0.7], 1: [0.7, 0.9]}


@pytest.fixture
def results(tmp_path):
    def make(apart: bool):
        rows = []
        for run, reached in REACHED.items():
            drawn = [("random", run if apart else None, trial + (0 if apart else 2 * run)) for trial in range(2)]
            for (strategy, of_run, trial), middle in zip(
                [("greedy_gnorm", run, None), *drawn], [reached, *TRIALS[run]], strict=True
            ):
                for pruned, accuracy in ((0, 1.0), (2, middle), (4, 0.0)):
                    row = {"model": "M", "strategy": strategy, "run": of_run, "trial": trial, "unit": "heads"}
                    row |= {
                        "heads_pruned": pruned,
                        "heads_left": 4 - pruned,
                        "fraction_pruned": pruned / 4,
                        "accuracy": accuracy,
                    }
                    rows.append(row)
        pd.DataFrame(rows).to_csv(tmp_path / "tidy.csv", index=False)
        return Results(tmp_path, {"M": "Model"}, STRATEGIES, random.NEEDS)

    return make


@pytest.mark.parametrize(("apart", "beaten"), [(False, 1 / 4), (True, 2 / 4)])
def test_a_trial_is_compared_with_the_run_on_its_model(results, apart, beaten):
    table = random.make(results(apart), {"strategy": "greedy_gnorm"}).set_index("heads pruned")
    row = table.loc[2]
    assert row["share beaten"] == beaten and row["trials"] == 4 and row["greedy_gnorm"] == REACHED[0]
    assert row["mean"] == pytest.approx(0.7) and table.loc[[0, 4], "share beaten"].tolist() == [0, 0]


@pytest.mark.parametrize(("apart", "mean"), [(False, 0.7), (True, 0.6)])
def test_the_point_of_random_pruning_is_the_mean_over_the_trials_of_run_0(results, apart, mean):
    table = areas.make(results(apart), SETTINGS).set_index("strategy")
    assert table["curves"].to_dict() == {"greedy_gnorm": 2, "random": 4}
    assert table.loc["random", "at 50%"] == pytest.approx(mean)
    assert table.loc["random", "area mean"] == pytest.approx(0.25 + 0.7 / 2)  # over all
    assert table.loc["random", "at 50% ±"] == pytest.approx(pd.Series([0.5, 0.7, 0.7, 0.9]).std())
    assert table.loc["greedy_gnorm", "at 50%"] == REACHED[0]
    shown = headline.make(results(apart), {}).set_index("strategy")["Model"]
    assert shown["random"].startswith(f"{0.25 + mean / 2:.3f} ± ")
