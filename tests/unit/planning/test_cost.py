"""Seconds of jobs: by the law of their rows and dimensions, corrected by what finished jobs took."""

from pathlib import Path

import pytest
from support import costs_of

from gnorm import scores
from gnorm.planning import cost
from gnorm.planning.cost import MARGIN, PRUNED, START

RUN = {"model": "BERT", "strategy": "greedy_gnorm", "first": "0", "last": "0"}


def passes(costs, rule="prune_heads", **wildcards):
    """Rows that the law counts, in calibration rows of the suite `paper`'s BERT, on which it is evaluated too."""
    wildcards = RUN | wildcards
    entry, threads = costs.settings["models"][wildcards["model"]], costs.settings["jobs"]["threads"]
    a_row = entry["row_tokens"] * cost.flops_per_token(costs.shapes[wildcards["model"]]) / cost.SPEED / threads
    return (costs.law(rule, wildcards) - START) / a_row / entry["rows"]["calibration"]


@pytest.mark.parametrize("name", [n for n in scores.names() if not scores.describe(n).drawn and n != "hybrid"])
def test_a_trajectory_costs_its_scores_and_evaluations(name):
    """By the passes that each criterion says it makes, at 144 steps or at one."""
    strategies = {how: {"score": name, "rescore": how} for how in ("every_step", "never")}
    strategies["ten"] = {"score": name, "rescore": 10}
    suite = costs_of("paper", strategies=strategies, solutions={"strategy": "ten"})
    settings = suite.settings["models"]["BERT"]["strategies"]["never"]["settings"]
    forward, backward = scores.describe(name).passes(settings, 144, 12)
    score, evaluations = PRUNED * (forward + 2 * backward), PRUNED**2 * 144
    for strategy, times in (("every_step", 144), ("ten", 15), ("never", 1)):
        assert passes(suite, strategy=strategy) == pytest.approx(times * score + evaluations)
    assert passes(suite, strategy="never", last="2") == pytest.approx(3 * (score + evaluations))


def test_a_trajectory_may_end_early_and_may_be_of_neurons():
    early = costs_of("paper", stop={"fraction": 0.5})
    assert passes(early) == pytest.approx(72 * (3 * PRUNED + PRUNED**2))
    none = costs_of("paper", stop={"heads": 1})  # of ALBERT a step takes 12
    assert none.law("prune_heads", RUN | {"model": "ALBERT", "strategy": "ae"}) == START
    strategies = {"by_neurons": {"score": "magnitude", "rescore": "never", "unit": "neurons"}}
    strategies["greedy_gnorm"] = {"score": "gnorm"}
    suite = costs_of("paper", strategies=strategies, neurons={"group": 64})
    assert passes(suite, strategy="by_neurons") == pytest.approx(12 * 48 * PRUNED**2)
    # ALBERT's layers share their weights: fewer steps, and no layer keeps its outputs.
    assert passes(suite, model="ALBERT", strategy="by_neurons") == pytest.approx(48 * PRUNED)


def test_other_jobs_cost_their_rows():
    suite = costs_of("paper", compare=["fisher", "magnitude"])
    calibration = suite.settings["models"]["BERT"]["rows"]["calibration"]
    shard = passes(suite, "entropy_shard", first="100", last="299") * calibration
    assert shard == pytest.approx(200)
    assert passes(suite, "random_pruning", first="5", last="9") == pytest.approx(5 * 24 * PRUNED)
    assert passes(suite, "measure_controls") == pytest.approx(4 * PRUNED)
    assert passes(suite, "compare_criteria") == pytest.approx(3 * (3 * PRUNED + 2 * 24 * PRUNED))
    mini = costs_of("mini")
    assert passes(mini, "make_checkpoint") == pytest.approx(cost.TRAINED * 7 * 6000 / 128)
    assert suite.law("make_checkpoint", RUN) == suite.law("make_dataset", RUN) == START
    assert suite.law("draw_figure", {"figure": "Heatmaps"}) == cost.PLAIN


def test_language_models_are_timed_while_they_write():
    short, long = (
        costs_of("mini", generation={"new_tokens": n}).law("measure_speed", {"model": "GPT2"}) for n in (9, 19)
    )
    assert long - START == pytest.approx(2 * (short - START))


def test_a_faster_device_takes_less():
    slow, fast = (costs_of("paper", device_speed=speed).law("prune_heads", RUN) - START for speed in (None, 20))
    assert slow / fast == pytest.approx(20 * 2 / 4)  # two threads to one unit of speed; the suite has four


def ended(folder, name, seconds):
    path = Path(folder, "results/mini/benchmarks", f"{name}.tsv")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"s\th:m:s\n{seconds}\t0:00:00\n")


def test_finished_jobs_correct_the_law_the_most_alike_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    law = costs_of("mini")
    bert, other, albert = RUN, RUN | {"strategy": "ae"}, RUN | {"model": "ALBERT"}
    for wildcards, times in ((bert, 2), (other, 4)):
        name = "prune_heads/{model}/{strategy}/{first}-{last}".format(**wildcards)
        ended(tmp_path, name, times * law.law("prune_heads", wildcards))
    costs = costs_of("mini", learning=True)

    def factor(wildcards, rule="prune_heads"):
        return costs.seconds(rule, wildcards) / law.law(rule, wildcards)

    assert factor(bert) == factor(bert | {"first": "1", "last": "9"}) == pytest.approx(2)  # the same strategy
    assert factor(RUN | {"strategy": "inverse_gnorm"}) == pytest.approx(3)  # the same model
    assert factor(albert) == pytest.approx(3)  # the same rule
    assert factor(albert, "random_pruning") == 1
    costs.learn("prune_heads", albert, 9 * law.law("prune_heads", albert))
    assert factor(albert) == pytest.approx(9) and factor(bert) == pytest.approx(2)
    costs.learn("prune_heads", bert, 5 * law.law("prune_heads", bert))
    assert factor(bert) == pytest.approx(5)  # this run comes before others


def test_time_limits_leave_room_and_are_never_below_the_laws(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wildcards = RUN | {"last": "999"}
    law = costs_of("mini").law("prune_heads", wildcards)
    name = "prune_heads/BERT/greedy_gnorm/0-999"
    for seconds, longest in ((law / 10, law), (3 * law, 3 * law)):
        ended(tmp_path, name, seconds)
        minutes = costs_of("mini", learning=True).minutes("prune_heads", wildcards)
        assert MARGIN * longest / 60 + 10 == pytest.approx(minutes, abs=1)
    assert costs_of("mini").minutes("draw_figure", {}) == 11


def test_what_no_job_of_the_suite_has_left_is_skipped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("make_checkpoint/GONE", "prune_heads/BERT/gone/0-2"):
        ended(tmp_path, name, 5)
    ended(tmp_path, "make_checkpoint/BERT", "")  # cut short
    ended(tmp_path, "entropy_shard/BERT/0-63", 5)
    wildcards = {"model": "BERT", "first": "0", "last": "63"}
    assert costs_of("mini", learning=True).finished() == [("entropy_shard", wildcards, 5.0)]


def test_files_are_read_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended(tmp_path, "make_checkpoint/BERT", 50)
    costs = costs_of("mini", learning=True)
    first = costs.seconds("make_checkpoint", {"model": "BERT"})
    ended(tmp_path, "make_checkpoint/BERT", 5000)
    assert costs.seconds("make_checkpoint", {"model": "BERT"}) == first == pytest.approx(50)
