"""The figure Quality: a panel for each metric that the configuration asks for."""

import numpy as np
import pandas as pd
import pytest

from gnorm.figures import quality
from gnorm.statistics.results import Results

STRATEGIES = {"ae": {"drawn": False}, "random": {"drawn": True}}
TASKS = {"GPT": "language_model", "BERT": "classification"}
METRICS = {
    "classification": ["accuracy", "macro_f1"],
    "language_model": ["accuracy", "perplexity", "tokens_per_second", "repetition"],
}


def steps(model, metrics):
    """Two runs and two trials of four heads."""
    rows = []
    for strategy, column in (("ae", "run"), ("random", "trial")):
        for number in range(2):
            for pruned in range(5):
                row = {"model": model, "strategy": strategy, "run": None, "trial": None, "unit": "heads"}
                row |= {
                    column: number,
                    "heads_pruned": pruned,
                    "heads_left": 4 - pruned,
                    "fraction_pruned": pruned / 4,
                    "accuracy": 1 - pruned / 5,
                }
                rows.append(row | dict.fromkeys(metrics, 10.0**pruned + number))
    return rows


@pytest.fixture
def folder(tmp_path):
    pd.DataFrame(steps("GPT", ["perplexity"]) + steps("BERT", ["macro_f1"])).to_csv(tmp_path / "tidy.csv", index=False)
    (tmp_path / "GPT").mkdir()
    rates = np.array([100.0, 150.0, 200.0])
    speeds = pd.DataFrame({"strategy": "ae", "heads_pruned": [0, 2, 4], "tokens_per_second": rates})
    speeds = speeds.assign(lowest_tokens_per_second=rates - 20, highest_tokens_per_second=rates + 30)
    speeds.assign(texts=8, texts_judged=[8, 8, 3], repetition=[0.1, 0.2, 0.0]).to_csv(tmp_path / "GPT/speed.csv")
    return tmp_path


def panels(folder, models, metrics=METRICS):
    results = Results(folder, models, STRATEGIES, (*quality.NEEDS, *quality.OPTIONAL))
    figure = quality.draw(results, {"tasks": TASKS, "metrics": metrics, "columns": 2})
    figure.canvas.draw()
    return {axis.get_title(): axis for axis in figure.axes}


def test_every_metric_has_a_panel_and_a_model_starts_a_row(folder):
    found = panels(folder, {"GPT": "Gpt", "BERT": "Bert"})
    assert list(found) == [
        *("Gpt: next-token accuracy", "Gpt: perplexity", "Gpt: tokens per second", "Gpt: repetition"),
        *("Gpt: next-token accuracy against speed", "Gpt: perplexity against speed"),
        *("Bert: accuracy", "Bert: macro-F1"),
    ]
    tops = [round(axis.get_position().y1, 2) for axis in found.values()]
    assert len({*tops[:4]}) == len({*tops[4:6]}) == len({*tops[6:]}) == 1 and tops[0] > tops[4] > tops[6]
    assert {name for name, axis in found.items() if axis.get_yscale() == "log"} == {
        "Gpt: perplexity",
        "Gpt: perplexity against speed",
    }
    for name, axis in found.items():
        assert axis.get_xlabel() == ("tokens a second" if "against" in name else "pruned heads (of 4)")
        if "against" not in name:
            assert all(tick == int(tick) for tick in axis.get_xticks())
    assert list(panels(folder, {"BERT": "Bert"})) == ["Bert: accuracy", "Bert: macro-F1"]


def test_what_is_drawn_is_what_was_measured(folder):
    found = panels(folder, {"GPT": "Gpt"})
    rate = found["Gpt: tokens per second"]
    assert rate.lines[0].get_xydata().tolist() == [[0, 100], [2, 150], [4, 200]]
    low, high = rate.collections[0].get_datalim(rate.transData).intervaly
    assert (low, high) == (80, 230)
    against = found["Gpt: perplexity against speed"]
    assert against.lines[0].get_xydata().tolist() == [[100, 1], [150, 100], [200, 10_000]]  # of run 0
    assert against.lines[1].get_xydata().tolist() == [[100, 1]]  # the ring
    drawn, hollow = found["Gpt: repetition"].lines
    assert drawn.get_xydata().tolist() == [[0, 0.1], [2, 0.2], [4, 0.0]]
    assert hollow.get_xydata().tolist() == [[4, 0.0]] and hollow.get_markerfacecolor() == "white"


def test_accuracy_alone_is_a_panel_too(folder):
    found = panels(folder, {"GPT": "Gpt", "BERT": "Bert"}, {"classification": [], "language_model": ["repetition"]})
    assert list(found) == [
        *("Gpt: next-token accuracy", "Gpt: repetition", "Gpt: next-token accuracy against speed", "Bert: accuracy")
    ]
