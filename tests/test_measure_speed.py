"""A suite of a decoder and a classifier whose speed is measured, run to the last file; and speed by itself."""

import json

import measure_speed
import pandas as pd
import pytest
import yaml
from conftest import copy_workflow, planned, snakemake

from gnorm import UserError, speed
from gnorm.metrics import METRICS

SIZES = {"layers": 2, "heads": 4, "width": 16, "feed_forward": 16, "vocabulary": 300, "epochs": 1}
SUITE = {
    "runs_per_job": 2,
    "models": {
        "DECODER": {
            "title": "Decoder",
            "task": "language_model",
            "dataset": {"source": "generated", "corpus": "letters"},
            "checkpoint": {"source": "train", "family": "llama", "key_heads": 2, **SIZES},
            "rows": {"train": 200, "calibration": 12, "evaluation": "same"},
            "random": {"trials": 3, "levels": 5},
        },
        "BERT": {
            "dataset": {"source": "generated", "corpus": "finance"},
            "checkpoint": {"source": "train", "family": "bert", **SIZES},
            "rows": {"train": 200, "calibration": 12, "evaluation": 30},
            "random": {"trials": 3, "levels": 5},
        },
    },
}
CHANGES = {
    "suite": "both",
    "runs": 2,
    "strategies": {
        "greedy_gnorm": {"score": "gnorm"},
        "ae": {"score": "entropy", "prune": "highest", "rescore": "never"},
        "random": {"score": "random", "trials": 3},
    },
    "compare": ["gnorm", "magnitude"],
    "metrics": {"classification": ["accuracy", "loss", "tokens_per_second"]},
}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = copy_workflow(tmp_path_factory.mktemp("both"))
    (folder / "suites/both.yaml").write_text(yaml.safe_dump(SUITE))
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | CHANGES))
    made = snakemake(folder, "--quiet", "rules")
    assert made.returncode == 0, made.stderr[-5000:]
    return folder


def test_every_model_has_the_metrics_of_its_task(both):
    tidy = pd.read_csv(both / "results/both/tidy.csv")
    decoder, bert = (tidy[tidy["model"] == name] for name in ("DECODER", "BERT"))
    assert tidy.columns.tolist()[-3:] == ["unit", "loss", "perplexity"]  # BERT is the first model
    assert decoder[["perplexity", "loss"]].notna().all(axis=None) and bert["loss"].notna().all()
    assert bert["perplexity"].isna().all()
    splits = json.loads((both / "results/both/DECODER/dataset/splits.json").read_text())
    assert splits["classes"] == [] and decoder["evaluated"].dropna().nunique() == 1
    assert decoder["evaluated"].dropna().iloc[0] > 10 * len(splits["evaluation"])  # tokens, not rows
    table = pd.read_csv(both / "results/both/tables/metrics.csv")
    found = {model: sorted(part["metric"].unique()) for model, part in table.groupby("model")}
    assert found == {"Decoder": ["loss", "next-token accuracy", "perplexity"], "BERT": ["accuracy", "loss"]}
    greedy = decoder[(decoder["strategy"] == "greedy_gnorm") & (decoder["run"] == 0)].set_index("fraction_pruned")
    row = table.set_index(["model", "metric", "strategy"]).loc[("Decoder", "perplexity", "greedy_gnorm")]
    assert row["unpruned"] == greedy["perplexity"][0.0] and row["at 50%"] == pytest.approx(greedy["perplexity"][0.5])


def test_speeds_are_of_run_0_and_of_pruned_models(both):
    for model, writes in (("DECODER", True), ("BERT", False)):
        found = pd.read_csv(both / f"results/both/{model}/speed.csv")
        assert set(found["strategy"]) == {"greedy_gnorm", "ae"} and len(found) == 10
        assert ("text" in found) == writes and (found["tokens_per_second"] > 0).all()
        for strategy, part in found.groupby("strategy"):
            steps = pd.read_csv(both / f"results/both/{model}/trajectories/{strategy}/run0.csv")
            sizes = steps.set_index(steps["heads_left"].iloc[0] - steps["heads_left"])["parameters"]
            assert part["parameters"].tolist() == sizes[part["heads_pruned"]].tolist()
            assert (part["tokens_per_second"] * part["seconds"] / part["tokens"] - 1).abs().max() < 1e-4
    table = pd.read_csv(both / "results/both/tables/speed.csv")
    assert table["model"].value_counts().to_dict() == {"Decoder": 10, "BERT": 10}
    assert (table[table["heads pruned"] == 0]["speed-up"] == 1).all()


def test_tables_figures_and_verdict_of_both_tasks(both):
    baselines = pd.read_csv(both / "results/both/tables/baselines.csv")
    assert baselines["model"].tolist() == ["BERT"]
    for name in ("PruningResults", "RandomPruning", "Quality", "gradientpooling"):
        assert (both / f"figures/both/{name}.png").stat().st_size > 10_000
    verdict = pd.read_csv(both / "results/both/verdict.csv")
    own = verdict[verdict["part"] == "Sentinel-AI"]
    assert len(own) == 8 and set(own["status"]) <= {"reproduced", "differs"}
    card = (both / "results/both/solutions/DECODER/checkpoint/README.md").read_text()
    assert "pipeline_tag: text-generation" in card and "| next-token accuracy (%) |" in card
    assert "next token" in (both / "results/both/DECODER/dataset/summary.md").read_text()


def test_a_second_run_does_nothing_and_a_metric_of_speed_prunes_nothing(both, tmp_path, copy_of):
    assert planned(both) == {}
    tree = copy_of(both, tmp_path)
    config = yaml.safe_load((tree / "config.yaml").read_text())
    config["metrics"]["language_model"] = ["perplexity", "loss", "tokens_per_second"]
    (tree / "config.yaml").write_text(yaml.safe_dump(config))
    plan = planned(tree)
    assert plan["measure_speed"] == 1
    assert not {"make_checkpoint", "prune_heads", "random_pruning", "compare_criteria", "find_solution"} & set(plan)


def test_a_trajectory_that_ended_early_is_followed_to_its_end(make_tiny):
    tiny = make_tiny("bert")
    order = [(0, 1), (1, 2), (2, 0)]
    found = list(measure_speed.sweep(tiny.model, tiny.heads, order, [0, 2, 3, 9]))
    assert [len(gone) for gone, _ in found] == [0, 2, 3]
    assert tiny.heads.left(found[-1][1]) == 9 and tiny.heads.kept(tiny.model).all()


def test_texts_without_words_have_no_quality():
    wanted = [name for name, metric in METRICS.items() if metric.of_words]
    assert measure_speed.quality(["", "a a", "a b"], wanted) == {"lexical_diversity": 0.75, "repetition": 0.5}
    assert all(value != value for value in measure_speed.quality([""], wanted).values())


def test_a_reader_counts_tokens_and_no_padding(make_tiny):
    tiny = make_tiny("bert")
    measured = speed.Reader(tiny.tokenizer, tiny.rows[:9])(tiny.model)
    assert measured.tokens == sum(len(tiny.tokenizer(row["text"])["input_ids"]) for row in tiny.rows[:9])
    assert measured.seconds > 0 and not measured.texts


def test_rows_too_short_for_a_prompt_are_refused(make_tiny):
    tiny = make_tiny("gpt2", writes=True)
    with pytest.raises(UserError, match="no evaluation row is longer than the 4 tokens of a prompt"):
        speed.Writer(tiny.tokenizer, [tiny.rows[0] | {"text": "Z"}])
