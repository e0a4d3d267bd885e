"""The suite paper: planned at its real size, and run whole on stand-ins for its models and datasets."""

import json

import pandas as pd
import pytest
import standins
import torch
import yaml
from support import copy_workflow, planned, snakemake

from gnorm.data.rows import NO_CLASS
from gnorm.settings import suites as settings

PAPER = ("--config", "suite=paper")
MODELS = tuple(standins.STAND_INS)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    return copy_workflow(tmp_path_factory.mktemp("clean"))


def test_the_real_size_has_the_right_jobs(clean):
    shards = {"BERT": 2, "ALBERT": 20, "ROBERTA": 11, "XLM_ROBERTA": 10}
    trials = {"BERT": 100, "ALBERT": 25, "ROBERTA": 25, "XLM_ROBERTA": 25}
    strategies = 5
    assert planned(clean, *PAPER) == {
        "fetch_dataset": 4,
        "fetch_model": 4,
        "make_dataset": 4,
        "make_checkpoint": 4,
        "entropy_shard": sum(shards.values()),
        "merge_entropy": 4,
        "export_entropy": 4,
        "prune_heads": 3 * 4 * strategies,
        "random_pruning": sum(trials.values()) // 5,
        "merge_trials": 4,
        "gradient_change": 4,
        "measure_controls": 4,
        "compare_criteria": 3 * 4,
        "merge_criteria": 4,
        "find_solution": 4,
        "export_solution": 4,
        "export_accuracy": 4 * strategies,
        "export_random": 3 + 1 + 1 + 1,
        "collect_results": 1,
        "make_table": 11,
        "make_workbook": 1,
        "draw_figure": 7,
        "count_parameters": 1,
        "write_verdict": 1,
        "write_reproduction": 1,
        "write_report": 1,
    }
    assert planned(clean, *PAPER, "runs=1")["prune_heads"] == 4 * strategies


def test_the_real_shards_and_names(clean):
    made = snakemake(clean, "-n", *PAPER)
    said = made.stdout + made.stderr
    for path in (
        "BERT0_1299AE.pt",
        "BERT1300_2328AE.pt",
        "BERT_2329AE.pt",
        "ALBERT9500_9814AE.pt",
        "ALBERT_9815AE.pt",
        "ROBERTA5000_5204AE.pt",
        "ROBERTA_5205AE.pt",
        "XLM_ROBERTA7000_7999AE.pt",
        "XLM_ROBERTA_10000AE.pt",
        "BERTrandompruned_heads_data_50x25_2group.xlsx",
        "BERTrandompruned_heads_data_50x25_concated.xlsx",
        "ALBERTrandompruned_heads_data_25x13_1group.xlsx",
        "ROBERTArandompruned_heads_data_25x25_1group.xlsx",
        "XLM_ROBERTArandompruned_heads_data_25x25_1group.xlsx",
        "pruned_heads_accuracy(XLM_ROBERTA)basedonAEinverse.csv",
    ):
        assert f"/{path}" in said, path


SMALL = {  # rows, shard_rows, random
    "BERT": ({"calibration": 24, "evaluation": "same"}, 13, {"groups": 2, "trials": 2, "levels": 5}),
    "ALBERT": ({"calibration": 24, "evaluation": "same"}, 12, {"trials": 2, "levels": 5}),
    "ROBERTA": (
        {"calibration": 12, "entropy": 20, "evaluation": 20, "disjoint": False},
        10,
        {"trials": 2, "levels": 4},
    ),
    "XLM_ROBERTA": (
        {"calibration": 16, "entropy": 20, "evaluation": 24, "disjoint": False},
        10,
        {"trials": 2, "levels": 4},
    ),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The suite paper, smaller in rows and trials alone, on a mirror of stand-ins."""
    folder = copy_workflow(tmp_path_factory.mktemp("paper"))
    standins.build(folder / "mirror")
    path = folder / "suites/paper.yaml"
    suite = yaml.safe_load(path.read_text()) | {"threads": 1, "memory_mb": 4000, "reuse_mb": 200, "trials_per_job": 4}
    for model, (rows, shard_rows, random) in SMALL.items():
        suite["models"][model] |= {"rows": rows, "shard_rows": shard_rows, "random": random}
    path.write_text(yaml.safe_dump(suite))
    made = snakemake(folder, "--quiet", "rules", *PAPER, "hub_mirror=mirror", "runs=1")
    assert made.returncode == 0, made.stderr[-5000:]
    return folder


@pytest.mark.slow
def test_stand_ins_run_to_the_last_file(finished):
    results, figures = finished / "results/paper", finished / "figures/paper"
    assert len(list(figures.glob("*.png"))) == len(list(figures.glob("*.pdf"))) == 7
    for kind in ("csv", "md", "tex", "html"):
        assert len(list((results / "tables").glob(f"*.{kind}"))) == 11
    report = (results / "report.html").read_text()
    assert "XLM-RoBERTa" in report and "PruningResults.png" in report
    strategies = ("GreedyGnorm", "InverseGreedyGnorm", "StaticGnorm", "AE", "AEinverse")
    expected = {f"pruned_heads_accuracy({model})basedon{name}.csv" for model in MODELS for name in strategies}
    expected |= {f"BERTrandompruned_heads_data_2x5_{part}.xlsx" for part in ("1group", "2group", "concated")}
    expected |= {"ALBERTrandompruned_heads_data_2x5_1group.xlsx", "ROBERTArandompruned_heads_data_2x4_1group.xlsx"}
    expected |= {"XLM_ROBERTArandompruned_heads_data_2x4_1group.xlsx"}
    assert {path.name for path in (results / "experiments_results").iterdir()} == expected
    expected = {"BERT0_12AE.pt", "BERT13_23AE.pt", "BERT_24AE.pt", "ALBERT0_11AE.pt", "ALBERT12_23AE.pt"}
    expected |= {"ALBERT_24AE.pt", "ROBERTA0_9AE.pt", "ROBERTA10_19AE.pt", "ROBERTA_20AE.pt"}
    expected |= {"XLM_ROBERTA0_9AE.pt", "XLM_ROBERTA10_19AE.pt", "XLM_ROBERTA_20AE.pt"}
    assert {path.name for path in (results / "AE_calculation_results").iterdir()} == expected
    assert len(pd.read_excel(results / "all.xlsx", sheet_name=None)) == 12
    verdict = pd.read_csv(results / "verdict.csv")
    assert verdict["part"].value_counts()[["Table 1", "Tables 2-5"]].tolist() == [24, 60]
    assert set(verdict.loc[verdict["part"] == "Tables 2-5", "status"]) == {"reproduced"}


@pytest.mark.slow
def test_trajectories_have_the_papers_steps(finished):
    for model, made in standins.STAND_INS.items():
        published = finished / f"results/paper/experiments_results/pruned_heads_accuracy({model})basedonGreedyGnorm.csv"
        step = made.layers if model == "ALBERT" else 1
        assert pd.read_csv(published)["Pruned_Heads"].tolist() == list(range(0, made.layers * made.heads + 1, step))
        entropy = finished / f"results/paper/AE_calculation_results/{model}_{SMALL[model][0].get('entropy', 24)}AE.pt"
        assert torch.load(entropy, weights_only=True).shape == (made.layers, made.heads)
        solution = json.loads((finished / f"results/paper/solutions/{model}/solution.json").read_text())
        assert solution["heads_pruned"] == {"BERT": 117, "ALBERT": 36, "ROBERTA": 245, "XLM_ROBERTA": 105}[model]


def dataset(finished, model):
    folder = finished / f"results/paper/{model}/dataset"
    return pd.read_parquet(folder / "rows.parquet"), json.loads((folder / "splits.json").read_text())


@pytest.mark.slow
def test_neutral_tweets_are_scored_but_not_counted(finished):
    rows, splits = dataset(finished, "ROBERTA")
    table = standins.tweets()
    assert rows["label"].tolist() == [{0: 0, 1: NO_CLASS, 2: 1}[label] for label in table["label"]]
    assert splits["evaluation"] == table.index[table["label"] != 1].tolist()[:20]
    assert splits["calibration"] == list(range(12)) and (table["label"][:12] == 1).any()
    assert splits["entropy"] == list(range(20)) and splits["classes"] == ["0", "2"]
    paths = list((finished / "results/paper/ROBERTA/trajectories").glob("*/0-0.csv"))
    assert len(paths) == 5 and all((pd.read_csv(path)["evaluated"] == 20).all() for path in paths)


@pytest.mark.slow
def test_language_codes_are_compared_with_id2label(finished):
    rows, splits = dataset(finished, "XLM_ROBERTA")
    assert splits["classes"] == standins.LANGUAGES
    codes = standins.languages()["labels"]
    assert rows["label"].tolist() == [standins.LANGUAGES.index(code) for code in codes]
    assert splits["calibration"] == list(range(16)) and splits["evaluation"] == list(range(24))


@pytest.mark.slow
def test_pairs_and_chinese_titles_are_read_whole(finished):
    rows, splits = dataset(finished, "ALBERT")
    assert rows["pair"].tolist() == standins.sentence_pairs()["hypothesis"].tolist()
    assert splits["evaluation"] == splits["calibration"] == splits["entropy"] == list(range(24))
    rows, _ = dataset(finished, "BERT")
    assert rows["text"].tolist() == standins.chinese_news()["Title"].tolist() and rows["pair"].isna().all()
    assert rows["label"].tolist() == standins.chinese_news()["labels"].tolist()


@pytest.mark.slow
def test_downloads_hold_what_is_needed_and_no_code(finished):
    names = {
        model: {path.name for path in (finished / f"results/paper/{model}/download/model").iterdir()}
        for model in MODELS
    }
    assert "model.safetensors" in names["ROBERTA"] and "pytorch_model.bin" in names["ALBERT"]
    assert not names["ROBERTA"] & {"pytorch_model.bin", "training_args.bin", "modeling_custom.py"}


@pytest.mark.slow
def test_a_second_run_does_nothing(finished):
    assert planned(finished, *PAPER, "hub_mirror=mirror", "runs=1") == {}


def test_the_suite_has_the_papers_numbers(clean):
    config = yaml.safe_load((clean / "config.yaml").read_text())
    models = settings.load(config | {"suite": "paper"}, clean)["models"]
    assert [models[model]["solution"] for model in MODELS] == [117, 36, 245, 105]
    assert [models[model]["shard_rows"] for model in MODELS] == [1300, 500, 500, 1000]
    assert [models[model]["rows"]["calibration"] for model in MODELS] == [2329, 9815, 252, 504]
    assert [models[model]["rows"]["evaluation"] for model in MODELS] == ["same", "same", 1000, 3000]
    assert all(models[model]["dataset"]["order"] == "as_is" for model in MODELS)
    for model, made in standins.STAND_INS.items():
        entry = models[model]["dataset"]
        folder = "/".join(filter(None, (entry["id"], entry["config"])))
        assert (models[model]["checkpoint"]["id"], folder) == (made.model, made.dataset)
        assert made.split.startswith(entry["split"] + ".")
