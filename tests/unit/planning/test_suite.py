"""Which files a configuration asks for."""

import copy

import pytest
import yaml
from support import ROOT

from gnorm import layout
from gnorm.errors import UserError
from gnorm.planning.suite import Suite, parts, without_a_run
from gnorm.settings import suites as settings

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())


def suite(**changes) -> Suite:
    return Suite(settings.load(copy.deepcopy(CONFIG) | changes, ROOT))


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [(3, 3, [(0, 2)]), (5, 2, [(0, 1), (2, 3), (4, 4)]), (1, 10, [(0, 0)])],
)
def test_parts(count, size, expected):
    assert parts(count, size) == expected


def test_a_run_is_in_one_file_and_all_files_are_listed():
    smoke = suite(suite="smoke", runs=5)  # three runs to a job
    files = [smoke.trajectory("BERT", "ae", run) for run in range(5)]
    assert files[0] == files[2] == "results/smoke/BERT/trajectories/ae/0-2.csv"
    assert files[3] == files[4] == "results/smoke/BERT/trajectories/ae/3-4.csv"
    assert {(path, "BERT", "ae") for path in files} <= {*smoke.trajectories()}
    assert len(smoke.trajectories()) == len(smoke.models) * len(smoke.ranked) * 2


def test_published_workbooks_and_their_trials():
    smoke = suite(suite="smoke")
    folder = "results/smoke/experiments_results"
    names = [f"{folder}/BERTrandompruned_heads_data_4x3_{part}.xlsx" for part in ("1group", "2group", "concated")]
    assert smoke.published_trials("BERT") == names
    assert smoke.published_trials("ALBERT") == [f"{folder}/ALBERTrandompruned_heads_data_4x3_1group.xlsx"]
    assert [smoke.trial_range("BERT", group) for group in ("1group", "2group", "concated")] == [(0, 3), (4, 7), (0, 7)]
    no_random = {name: entry for name, entry in CONFIG["strategies"].items() if name != "random"}
    assert suite(suite="smoke", strategies=no_random).published_trials("BERT") == []


def test_entropy_is_read_from_shards_where_its_settings_are_theirs():
    own = {"own": {"score": "entropy", "rescore": "never", "settings": {"variant": "A"}}}
    again = {"again": {"score": "entropy", "rescore": "every_step"}}
    smoke = suite(suite="smoke", strategies=CONFIG["strategies"] | own | again)
    assert smoke.shards_of("BERT", "ae") == smoke.shards("BERT") != []
    assert smoke.shards_of("BERT", "own") == smoke.shards_of("BERT", "again") == []
    assert smoke.shards_of("BERT", "greedy_gnorm") == []


def test_published_entropies_have_the_rows_of_their_shards():
    assert suite(suite="paper").published_entropy("BERT")[-1].endswith("/BERT_2329AE.pt")


def test_what_no_model_has_is_not_made():
    mini, smoke = suite(suite="mini"), suite(suite="smoke")
    assert "speed" in mini.tables and "speed" not in smoke.tables  # only its language models are timed
    assert mini.needs("speeds") == [mini.fill(layout.SPEED, model=m) for m in ("GPT2", "LLAMA")]
    assert smoke.needs("speeds") == []
    neurons = {"by_neuron": {"score": "magnitude", "unit": "neurons"}}
    assert "neurons" not in smoke.tables and "NeuronPruning" not in smoke.figures
    pruned = suite(suite="smoke", strategies=CONFIG["strategies"] | neurons)
    assert "neurons" in pruned.tables and "NeuronPruning" in pruned.figures


def test_a_figure_may_read_what_some_models_have():
    smoke, mini = suite(suite="smoke"), suite(suite="mini")
    assert smoke.needs_of("figures.quality", "smoke") == ["results/smoke/tidy.csv"]
    assert mini.needs_of("figures.quality", "mini") == ["results/mini/tidy.csv", *mini.needs("speeds")]


def test_entropies_are_needed_where_something_ranks_by_them():
    strategies = {name: CONFIG["strategies"][name] for name in ("greedy_gnorm", "random")}
    without = suite(suite="smoke", strategies=strategies, compare=["gnorm"])
    assert not without.ranks_by_entropy and "entropy" not in without.tables
    assert suite(suite="smoke", strategies=strategies, compare=["entropy"]).ranks_by_entropy


def test_the_published_results_need_no_run(tmp_path):
    assert set(without_a_run("figures")) == {"PruningResults", "RandomPruning"}
    assert set(without_a_run("tables")) == {"headline", "areas", "stops", "random"}
    with pytest.raises(UserError, match="--config published=PATH"):
        suite().from_published()
    curve = layout.within(tmp_path, layout.PUBLISHED_CURVE, model="BERT", published="AE")
    curve.parent.mkdir()
    curve.write_text("Pruned_Heads,Accuracy\n")
    files = suite(published=str(tmp_path)).from_published()
    assert "figures/published/PruningResults.pdf" in files and "results/published/verdict.md" in files
    assert all("/published" in path for path in files)


def test_every_need_names_files_that_the_layout_knows():
    assert all(template in layout.HELD for needed in layout.NEEDS.values() for template in needed)
