"""Seconds of jobs: by one law of rows, dimensions and passes, corrected by what finished jobs took."""

import os
from pathlib import Path

import pytest
from support import costs_of

from gnorm import scores
from gnorm.planning.cost import FLOOR, MARGIN, SPEED, START, flops_per_token

RUN = {"model": "BERT", "strategy": "greedy_gnorm", "first": "0", "last": "0"}


def passes(costs, rule="prune_heads", **wildcards):
    """How often a job lets the calibration rows go forward; the suite `paper` evaluates on them too."""
    wildcards = RUN | wildcards
    return costs.passes(rule, wildcards) / costs.settings["models"][wildcards["model"]]["rows"]["calibration"]


@pytest.mark.parametrize("name", [n for n in scores.names() if not scores.describe(n).drawn and n != "hybrid"])
def test_a_trajectory_costs_its_evaluations_and_the_passes_of_its_criterion(name):
    strategies = {str(how): {"score": name, "rescore": how} for how in ("every_step", 10, "never")}
    suite = costs_of("paper", strategies=strategies, solutions={"strategy": "10"}, compare=[*{name, "magnitude"}])
    settings = suite.settings["models"]["BERT"]["strategies"]["never"]["settings"]
    forward, backward = scores.describe(name).passes(settings, 144, 12)
    for strategy, times in (("every_step", 144), ("10", 15), ("never", 1)):
        expected = 0.4 * (144 + times * (forward + 2 * backward))
        assert passes(suite, strategy=strategy) == pytest.approx(expected)
        assert passes(suite, strategy=strategy, last="2") == pytest.approx(3 * expected)
    orders = 1 if name == "magnitude" else 2
    assert passes(suite, "compare_criteria") == pytest.approx((orders * 25 + forward + 2 * backward) / 2)


def test_other_jobs_cost_what_is_said_of_their_rule():
    suite, mini = costs_of("paper"), costs_of("mini")
    assert suite.passes("entropy_shard", RUN | {"first": "100", "last": "299"}) == 200
    assert passes(suite, "random_pruning", first="5", last="9") == pytest.approx(5 * 25 / 2)
    assert passes(mini, "make_checkpoint") == pytest.approx(4 * 7 * 6000 / 128)
    assert suite.law("make_checkpoint", RUN) == suite.law("draw_figure", {"figure": "Heatmaps"}) == START
    texts = [passes(costs_of("mini", generation={"new_tokens": n}), "measure_speed", model="GPT2") for n in (9, 19)]
    assert texts[1] == pytest.approx(2 * texts[0])


def test_the_law_is_passes_by_speed():
    slow, fast = (costs_of("paper", device_speed=speed).law("prune_heads", RUN) - START for speed in (None, 20))
    assert slow / fast == pytest.approx(20 * 2 / 4)  # two threads to one unit of speed; the suite has four
    suite = costs_of("paper")
    flops = suite.passes("prune_heads", RUN) * 20 * flops_per_token(suite.shapes["BERT"])  # 20 tokens a row
    assert slow == pytest.approx(flops / SPEED / 4)


def test_trajectories_end_where_the_configuration_says():
    assert passes(costs_of("paper", stop={"fraction": 0.5})) == pytest.approx(0.4 * 72 * (3 + 1))
    of_albert = costs_of("paper", stop={"heads": 25})  # a step takes 12
    assert passes(of_albert, model="ALBERT", strategy="ae") == pytest.approx(0.4 * (2 + 1))
    strategies = {"greedy_gnorm": {"score": "gnorm"}, "by_neurons": {"score": "magnitude", "unit": "neurons"}}
    neurons = costs_of("paper", strategies=strategies, neurons={"group": 64})
    assert passes(neurons, strategy="by_neurons") == pytest.approx(0.4 * 12 * 48)


def ended(name, seconds):
    path = Path("results/mini/benchmarks", f"{name}.tsv")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"s\th:m:s\n{seconds}\t0:00:00\n")
    os.utime(path, (0, 0))


def test_finished_jobs_correct_the_law_the_most_alike_and_the_latest_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    law, albert = costs_of("mini"), RUN | {"model": "ALBERT"}
    for strategy, times, own in (("greedy_gnorm", 2, ""), ("ae", 4, "run1/")):  # one of a model of its own
        took = times * law.law("prune_heads", RUN | {"strategy": strategy})
        ended(f"{own}prune_heads/BERT/{strategy}/1-1", took)
    for name, seconds in (("make_checkpoint/GONE", 5), ("prune_heads/BERT/gone/0-2", 5), ("make_checkpoint/BERT", "")):
        ended(name, seconds)  # of what the suite no longer has, or cut short
    costs = costs_of("mini", learning=True)
    assert sorted(job[1]["strategy"] for job in costs.finished) == ["ae", "greedy_gnorm"]

    def factor(rule="prune_heads", **wildcards):
        return costs.seconds(rule, RUN | wildcards) / law.law(rule, RUN | wildcards)

    assert factor() == factor(first="1", last="9") == pytest.approx(2)  # the same strategy
    assert factor(strategy="ae", own="/run2") == pytest.approx(4)
    assert factor(strategy="inverse_gnorm") == pytest.approx(3) == factor(model="ALBERT")  # the same model, or rule
    assert factor("random_pruning") == pytest.approx(3) and factor("make_table") == 1  # nothing but the machine
    costs.learn("prune_heads", albert, 9 * law.law("prune_heads", albert))
    assert factor(model="ALBERT") == pytest.approx(9) and factor() == pytest.approx(2)
    for _ in range(3):  # accuracy ends them early now
        costs.learn("prune_heads", RUN, law.law("prune_heads", RUN) / 5)
    assert factor() == factor(strategy="inverse_gnorm") == pytest.approx(0.2)
    long, limit = {"last": "99999"}, lambda times, **of: FLOOR + MARGIN * times * law.law("prune_heads", RUN | of) / 60
    slow, early = ({"model": model, **long} for model in ("ALBERT", "BERT"))
    assert costs.minutes("prune_heads", RUN | slow) == pytest.approx(limit(9, **slow), abs=1)
    assert costs.minutes("prune_heads", RUN | early) == pytest.approx(limit(1, **early), abs=1)  # never a shorter one
