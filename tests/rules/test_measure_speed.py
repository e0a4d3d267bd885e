"""A suite of a decoder and a classifier whose speed is measured, run to the last file; and speed by itself."""

import json
import math
import shutil

import measure_speed
import pandas as pd
import pytest
import torch
import yaml
from support import copy_workflow, planned, run_of, snakemake

from gnorm import tables
from gnorm.engine import speed
from gnorm.engine.metrics import METRICS
from gnorm.errors import UserError
from gnorm.pruning import speeds
from gnorm.statistics.results import Results
from gnorm.tables import speed as table

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
    "generation": {"prompts": 3, "new_tokens": 10},
    "metrics": {"classification": ["accuracy", "loss", "tokens_per_second"]},
}

GENERATION = {"prompts": 8, "prompt_tokens": 4, "new_tokens": 24}


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
            steps = run_of(both / "results/both", model, strategy)[0]
            sizes = steps.set_index("heads_pruned")["parameters"]
            assert part["parameters"].tolist() == sizes[part["heads_pruned"]].tolist()
            assert (part["tokens_per_second"] * part["seconds"] / part["tokens"] - 1).abs().max() < 1e-4
            assert (part["lowest_tokens_per_second"] <= part["tokens_per_second"]).all()
            assert (part["tokens_per_second"] <= part["highest_tokens_per_second"]).all()
        if writes:
            assert (found["texts"] == 3).all() and (found["tokens"] == 3 * 10).all()
            assert found["words"].between(0, 10).all() and found["texts_judged"].between(0, 3).all()
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
    assert len(own) == 8 and set(own["status"]) <= {"holds", "does not hold", "undecided"}
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


def test_longer_texts_are_measured_again_and_nothing_else_is(both, tmp_path, copy_of):
    tree = copy_of(both, tmp_path)
    config = yaml.safe_load((tree / "config.yaml").read_text())
    config["generation"]["new_tokens"] = 11
    (tree / "config.yaml").write_text(yaml.safe_dump(config))
    plan = planned(tree)
    assert plan["measure_speed"] == 1  # of the decoder: a classifier writes nothing
    assert not {"make_checkpoint", "prune_heads", "random_pruning", "compare_criteria", "collect_results"} & set(plan)


def test_a_suite_without_classifiers_entropy_and_magnitude_says_what_to_add(both, tmp_path, copy_of):
    """The verdict, the figure and the table of what is left."""
    tree = copy_of(both, tmp_path)
    suite, config = tree / "suites/both.yaml", tree / "config.yaml"
    suite.write_text(yaml.safe_dump(SUITE | {"models": {"DECODER": SUITE["models"]["DECODER"]}}))
    changes = {"compare": ["gnorm"], "strategies": {k: v for k, v in CHANGES["strategies"].items() if k != "ae"}}
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | changes))
    made = snakemake(
        tree, "--quiet", "rules", "--", "verdict", "figures/both/Quality.png", "results/both/tables/speed.md"
    )
    assert made.returncode == 0, made.stderr[-5000:]
    verdict = pd.read_csv(tree / "results/both/verdict.csv").set_index("item")
    assert set(verdict["model"]) == {"Decoder"}
    for item, said in (
        ("Greedy-Gnorm beats attention entropy", "add the strategy `ae` to config.yaml"),
        ("Pruning up to 70% of the heads keeps performance", "add the strategy `ae` to config.yaml"),
        (
            "Magnitude beats random pruning",
            "add `magnitude` to `compare` of the suite, or of config.yaml if it has a list",
        ),
        ("Speed rises with pruning", "add the strategy `ae` to config.yaml"),
        ("Epsilon keeps the order of entropies", "add a strategy with `score: entropy` to config.yaml"),
    ):
        assert verdict.loc[item, ["status", "this run"]].tolist() == ["not run", said]
    assert verdict.loc["Greedy-Gnorm beats random pruning", "status"] in ("holds", "does not hold", "undecided")
    shutil.rmtree(tree / "results")
    plan = planned(tree)
    assert plan["prune_heads"] and not {"entropy_shard", "merge_entropy", "export_entropy"} & set(plan)


def test_speeds_of_another_configuration_are_not_read(both, tmp_path, copy_of):
    """Their files stay, of a model that may have been trained again since."""
    tree = copy_of(both, tmp_path)
    config = yaml.safe_load((tree / "config.yaml").read_text())
    config["metrics"] = {"classification": ["accuracy", "loss"], "language_model": ["accuracy", "perplexity", "loss"]}
    (tree / "config.yaml").write_text(yaml.safe_dump(config))
    made = snakemake(tree, "--quiet", "rules", "--", "verdict", "figures/both/Quality.png")
    assert made.returncode == 0, made.stderr[-5000:]
    assert (tree / "results/both/DECODER/speed.csv").exists()
    verdict = pd.read_csv(tree / "results/both/verdict.csv").set_index(["item", "model"])
    found = verdict.loc[("Speed rises with pruning", "Decoder"), ["status", "this run"]].tolist()
    assert found == ["not run", "add `tokens_per_second` to `metrics` of its task in config.yaml"]


def test_a_tokenizer_that_gives_segments_gives_them_where_the_model_writes(make_tiny):
    """GPT-2 adds them as tokens: without, it would write as another model than the one that is scored."""
    tiny = make_tiny("gpt2", writes=True)
    plain = speed.Writer(tiny.tokenizer, tiny.rows, 48, **GENERATION)(tiny.model)
    tiny.tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    (batch,) = tiny.batches(4, tokens=10_000)
    assert "token_type_ids" in batch.inputs
    writer = speed.Writer(tiny.tokenizer, tiny.rows, 48, **GENERATION)
    read = writer.prompts
    for _ in range(24):
        logits = tiny.model(input_ids=read, token_type_ids=torch.zeros_like(read)).logits
        read = torch.cat([read, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    texts = [tiny.tokenizer.decode(writer._text(ids[4:]), skip_special_tokens=True) for ids in read.tolist()]
    found = writer(tiny.model)
    assert list(found.texts) == texts and found.texts != plain.texts


def test_a_trajectory_that_ended_early_is_followed_to_its_end(make_tiny):
    tiny = make_tiny("bert")
    order = [(0, 1), (1, 2), (2, 0)]
    found = list(speeds.sweep(tiny.bench([], []), order, [0, 2, 3, 9]))
    assert [len(gone) for gone, _ in found] == [0, 2, 3]
    assert tiny.heads.left(found[-1][1]) == 9 and tiny.heads.kept(tiny.model).all()


def test_texts_without_words_have_no_quality():
    wanted = [name for name, metric in METRICS.items() if metric.of_words]
    found = speeds.quality(["", "a a", "a b"], wanted)
    assert {name: found[name] for name in wanted} == {"lexical_diversity": 0.75, "repetition": 0.5}
    found = speeds.quality([""], wanted)
    assert all(found[name] != found[name] for name in wanted)


def test_how_much_there_was_to_judge_is_said():
    """A model that writes a full stop has the best diversity there is: its words and texts give it away."""
    wanted = [name for name, metric in METRICS.items() if metric.of_words]
    amounts = ("words", "texts", "texts_judged")
    for texts, said in (([".", ".", ". ."], (4 / 3, 3, 1)), (["a b c", "", "a"], (4 / 3, 3, 1)), (["."], (1, 1, 0))):
        found = speeds.quality(texts, wanted)
        assert [found[name] for name in amounts] == pytest.approx(said, rel=1e-5)
    assert found["lexical_diversity"] == 1 and math.isnan(found["repetition"])
    assert speeds.quality(["a b"], [])["words"] == 2


def test_a_rate_is_of_the_median_round_and_spans_all_of_them():
    seconds = [9.0, 0.5, 2.0, 1.0, 4.0]
    found = speeds.rate([speed.Measured(10, one) for one in seconds])
    assert found == {
        "tokens": 10,
        "seconds": 2.0,
        "tokens_per_second": 5.0,
        "lowest_tokens_per_second": pytest.approx(10 / 9, rel=1e-5),
        "highest_tokens_per_second": 20.0,
    }


class Clock:
    """Time that passes only where the test says so."""

    now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(speed, "time", made)
    return made


def test_one_measurement_lasts_until_its_least_time_has_passed(clock):
    def work():
        clock.now += 0.02
        return len(done.append(0) or done)

    done = []
    assert speed.timed(work, torch.device("cpu"), least=0.05) == (pytest.approx(0.02), 3)
    assert speed.timed(work, torch.device("cpu")) == (pytest.approx(0.02), 4)  # once


def test_warming_up_is_not_timed(clock, make_tiny, monkeypatch):
    tiny, passes = make_tiny("gpt2", writes=True), []

    def generate(model, prompts, new, segments):
        clock.now += 1000 if not passes else 0.03  # the first pass of a fresh model
        passes.append(new)
        return torch.zeros(len(prompts), new, dtype=torch.long)

    monkeypatch.setattr(speed, "generate", generate)
    writer = speed.Writer(tiny.tokenizer, tiny.rows, 48, prompts=2, prompt_tokens=4, new_tokens=6)
    found = writer(tiny.model)
    assert found.tokens == 12 and found.seconds == pytest.approx(0.03) and passes == [2, 6, 6]
    tiny, passes = make_tiny("bert"), []
    forward = tiny.model.forward

    def read(**inputs):
        clock.now += 1000 if not passes else 0.03
        passes.append(1)
        return forward(**inputs)

    monkeypatch.setattr(tiny.model, "forward", read)
    assert speed.Reader(tiny.tokenizer, tiny.rows[:3])(tiny.model).seconds == pytest.approx(0.03) and len(passes) == 3


def test_a_reader_counts_tokens_and_no_padding(make_tiny):
    tiny = make_tiny("bert")
    measured = speed.Reader(tiny.tokenizer, tiny.rows[:9])(tiny.model)
    assert measured.tokens == sum(len(tiny.tokenizer(row["text"])["input_ids"]) for row in tiny.rows[:9])
    assert measured.seconds > 0 and not measured.texts


def test_rows_too_short_for_a_prompt_are_refused(make_tiny):
    tiny = make_tiny("gpt2", writes=True)
    with pytest.raises(UserError, match="longer than the 4 tokens of a prompt: lower generation.prompt_tokens"):
        speed.Writer(tiny.tokenizer, [tiny.rows[0] | {"text": "Z"}], 48, **GENERATION)


def test_a_model_with_too_few_positions_is_one_line(make_tiny, caplog):
    """Refused where nothing could be written; said where less is written than was asked for."""
    tiny = make_tiny("gpt2", writes=True)
    for positions in (1, 4):
        with pytest.raises(UserError, match=f"the model has {positions} positions and none left to write in"):
            speed.Writer(tiny.tokenizer, tiny.rows, positions, **GENERATION)
    assert not caplog.records
    assert speed.Writer(tiny.tokenizer, tiny.rows, 5, **GENERATION)(tiny.model).tokens == len(tiny.rows[:8])
    speed.Writer(tiny.tokenizer, tiny.rows[:3], 48, **GENERATION)
    assert [record.getMessage() for record in caplog.records] == [
        "the model has 5 positions: 1 new tokens a prompt, not generation.new_tokens, 24",
        "3 prompts, not generation.prompts, 8: no more evaluation rows are longer than 4 tokens",
    ]


def test_the_file_has_the_median_round_without_warming_up(clock, make_tiny, monkeypatch, tmp_path):
    tiny, rounds = make_tiny("gpt2", writes=True), iter([0.4, 0.1, 0.2, 0.9, 0.3])

    def generate(model, prompts, new, segments):
        clock.now += 1000 if new == 2 else next(rounds)
        return torch.zeros(len(prompts), new, dtype=torch.long)

    monkeypatch.setattr(speed, "generate", generate)
    step = {"run": 0, "step": [0, 1], "layer": [None, 0], "head": [None, 0]}
    step |= {"heads_pruned": [0, 1], "heads_left": [12, 11]}
    columns = dict.fromkeys(("accuracy", "correct", "evaluated", "parameters", "seconds"), 1)
    pd.DataFrame(step | columns).to_csv(tmp_path / "0-0.csv", index=False)
    sizes = {"prompts": 2, "prompt_tokens": 4, "new_tokens": 6}
    output = tmp_path / "speed.csv"
    measure_speed.main(
        bench=tiny.bench([], []),
        rows=tiny.rows,
        trajectories={"ae": tmp_path / "0-0.csv"},
        levels=2,
        metrics=["tokens_per_second"],
        generation=sizes,
        output=output,
    )
    (row,) = pd.read_csv(output).to_dict("records")  # with all heads; the trajectory ended before the other level
    assert (row["tokens"], row["seconds"], row["tokens_per_second"], row["texts"]) == (12, 0.3, 40.0, 2)
    assert row["lowest_tokens_per_second"] == pytest.approx(12 / 0.9, rel=1e-5)
    assert row["highest_tokens_per_second"] == 120.0


def test_the_table_shows_how_sure_a_speed_is_and_how_much_was_written(tmp_path):
    """A decoder and a classifier; the classifier writes no text."""
    rates = {"tokens_per_second": [100.0, 150.0], "lowest_tokens_per_second": [90.0, 120.0]}
    rates |= {"highest_tokens_per_second": [110.0, 1234.5], "strategy": "ae", "heads_pruned": [0, 4], "parameters": 9}
    text = {"words": [8.25, 1.0], "texts": 8, "texts_judged": [8, 0], "lexical_diversity": [0.9, 1.0]}
    for model, columns in (("GPT", rates | text), ("BERT", rates)):
        (tmp_path / model).mkdir()
        pd.DataFrame(columns).to_csv(tmp_path / model / "speed.csv", index=False)
    made = table.make(Results(tmp_path, {"GPT": "Gpt", "BERT": "Bert", "OTHER": "x"}, {}, table.NEEDS), {})
    shown = tables.rounded(made, table.DECIMALS)
    assert shown.columns.tolist() == [
        *("model", "strategy", "heads pruned", "parameters", "tokens a second", "lowest", "highest", "speed-up"),
        *("words a text", "texts judged", "lexical diversity"),
    ]
    assert shown.values.tolist() == [
        ["Gpt", "ae", "0", "9", "100", "90", "110", "1.00", "8.2", "8 of 8", "0.900"],
        ["Gpt", "ae", "4", "9", "150", "120", "1,234", "1.50", "1.0", "0 of 8", "1.000"],
        ["Bert", "ae", "0", "9", "100", "90", "110", "1.00", "-", "-", "-"],
        ["Bert", "ae", "4", "9", "150", "120", "1,234", "1.50", "-", "-", "-"],
    ]
