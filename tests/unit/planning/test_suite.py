"""Which files a configuration asks for."""

import copy
import re

import pytest
import yaml
from support import ROOT

from gnorm import files, imports, layout
from gnorm.errors import UserError
from gnorm.planning.suite import Suite, parts, source, without_a_run
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
    assert set(without_a_run("tables")) == {"headline", "areas", "effects", "stops", "random"}
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


def test_tables_and_figures_get_the_settings_that_they_read_and_no_others():
    mini = suite(suite="mini", solutions={"strategy": "ae", "tolerance": 0.2})
    assert mini.shown("tables.stops") == {"strategy": "ae", "tolerance": 0.2}
    assert mini.shown("tables.headline") == mini.shown("figures.masks") == {}
    for path in (path for room in ("tables", "figures") for path in source(room).with_suffix("").glob("[!_]*.py")):
        text = path.read_text()
        read = {*re.findall(r'settings\["(\w+)"\]', text)}
        for other in re.findall(r"from gnorm.figures.(\w+) import drawn", text):
            read |= {*imports.constant(path.with_stem(other), "SHOWN")}
        assert {*imports.constant(path, "SHOWN", ())} == read, path


@pytest.mark.parametrize(
    ("shared", "content", "expected"),
    [
        ([[0, 1]], {"model_type": "bert"}, ["BERT"]),  # what was found in the model
        ([[0], [1]], {"model_type": "bert"}, []),
        (None, {"model_type": "albert"}, ["BERT"]),  # before anything was found
        (None, None, []),
    ],
)
def test_models_with_tied_heads_are_known_by_their_files(shared, content, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    smoke = suite(suite="smoke")
    smoke.settings["models"] = smoke.models = {
        "BERT": {**smoke.models["BERT"], "checkpoint": {"source": "local", "path": "own"}}
    }
    dimensions = {"vocab_size": 99, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8}
    if content:
        files.write_json("own/config.json", content | dimensions | {"max_position_embeddings": 9})
    if shared:
        files.write_json("results/smoke/BERT/heads.json", {"shared": shared})
    assert smoke.tied == expected


def trained_apart(**changes) -> Suite:
    """The suite `smoke`, three runs to a job, in which the runs of BERT train models of their own."""
    smoke = suite(suite="smoke", **changes)
    smoke.models["BERT"]["vary"] = "training"
    return smoke


def test_runs_with_models_of_their_own_have_a_folder_and_a_job_each():
    smoke, rows = trained_apart(runs=3), suite(suite="smoke", runs=3)
    folder = "results/smoke/BERT"
    folders = [folder, f"{folder}/run1", f"{folder}/run2"]
    assert [smoke.trajectory("BERT", "ae", run) for run in range(3)] == [
        f"{own}/trajectories/ae/{run}-{run}.csv" for run, own in enumerate(folders)
    ]
    assert smoke.criteria_parts("BERT", layout.CRITERIA_PART) == [
        f"{own}/criteria/shards/{run}-{run}.csv" for run, own in enumerate(folders)
    ]
    assert smoke.of_each_run(layout.CHECKPOINT) == [
        *(f"{own}/checkpoint" for own in folders),
        "results/smoke/ALBERT/checkpoint",
    ]
    assert smoke.shards_of("BERT", "ae", "/run2") == smoke.shards_compared("BERT", "/run2")
    assert smoke.shards_of("BERT", "ae", "/run2")[0] == f"{folder}/run2/entropy/shards/0-7.pt"
    assert smoke.trial_parts("BERT", "random", "/run1") == [
        path.replace(folder, f"{folder}/run1") for path in rows.trial_parts("BERT", "random")
    ]
    assert smoke.trial_tables() == [
        *((f"{own}/random/trials.csv", "BERT", "random", run) for run, own in enumerate(folders)),
        ("results/smoke/ALBERT/random/trials.csv", "ALBERT", "random"),
    ]
    assert smoke.independent == ["BERT"] and [smoke.seed_of(own) for own in smoke.owns("BERT")] == [2026, 2027, 2028]
    assert [smoke.bench("BERT", own=own).get("resamples", True) for own in smoke.owns("BERT")] == [True, False, False]


def test_what_a_run_of_its_own_has_not_is_that_of_run_0():
    smoke, rows = trained_apart(), suite(suite="smoke")
    for path in (layout.ROWS, layout.CONTROLS, layout.PRUNED):
        assert smoke.of_each(path) == rows.of_each(path)
    assert smoke.evidence("smoke") == rows.evidence("smoke") and smoke.published_curves() == rows.published_curves()
    assert smoke.published_entropy("BERT") == rows.published_entropy("BERT")
    assert smoke.bench("BERT") == rows.bench("BERT") and smoke.bench("BERT", own="/run1") != rows.bench("BERT")


def test_all_models_are_trained_before_other_runs_are_pruned():
    smoke = trained_apart()
    assert [smoke.goes_first("BERT", first=run) for run in range(3)] == [3, 2, 2]
    assert smoke.goes_first("BERT", "ae", 0) == 1 and smoke.goes_first("BERT", "ae", 1) == 0  # runs are split
    assert smoke.goes_first("ALBERT", "ae", 0) == 0  # those of ALBERT are not


def test_one_curve_comes_before_everything_else():
    smoke = suite(suite="smoke", runs=5)  # three runs to a job
    assert [smoke.goes_first(model) for model in ("BERT", "ALBERT")] == [3, 2]
    assert smoke.goes_first("BERT", "greedy_gnorm", 0) == 3 and smoke.goes_first("BERT", "greedy_gnorm", 3) == 0
    assert smoke.goes_first("BERT", "ae", 0) == smoke.goes_first("ALBERT", "greedy_gnorm", 0) == 1
    assert suite(suite="smoke").goes_first("BERT", "ae", 0) == 0  # all runs in one job
