"""The finished suite mini: does the whole chain give sensible numbers?"""

import copy
import hashlib
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from support import ROOT, copy_workflow, run_of, snakemake

from gnorm.benchmarks import naive
from gnorm.data.prepare import LISTS
from gnorm.data.rows import NO_CLASS, read
from gnorm.engine.batches import in_order, make
from gnorm.models import checkpoints, surgery
from gnorm.models.heads import head_map
from gnorm.scores import gnorm

pytestmark = pytest.mark.mini
MODELS = ("BERT", "ALBERT", "ROBERTA", "XLM_ROBERTA")
DECODERS = ("GPT2", "LLAMA")


def bag_of_words(folder: Path) -> float:
    """Accuracy of a logistic regression over word counts, same training and evaluation rows."""
    rows = pd.read_parquet(folder / "rows.parquet")
    splits = json.loads((folder / "splits.json").read_text())
    # Words of the second text are features of their own, or comparing the two would be hopeless from the start.
    second = rows["pair"].fillna("").map(lambda text: " ".join(f"2:{word}" for word in text.split()))
    texts = rows["text"] + " " + second
    train, test = splits["train"], splits["evaluation"]
    assert not set(train) & set(test) and (rows["label"][test] != NO_CLASS).all()
    words = {word: i for i, word in enumerate(sorted({w for text in texts[train] for w in text.split()}))}

    def counts(texts):
        table = torch.zeros(len(texts), len(words) + 1)
        for i, text in enumerate(texts):
            for word in text.split():
                if word in words:
                    table[i, words[word]] += 1
        table[:, -1] = 1
        return table

    x, y = counts(texts[train]), torch.tensor(rows["label"][train].to_numpy())
    weights = torch.zeros(x.shape[1], int(y.max()) + 1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(x @ weights, y) + 0.5 / len(y) * weights[:-1].pow(2).sum()
        value.backward()
        return value

    optimizer.step(loss)
    predicted = (counts(texts[test]) @ weights.detach()).argmax(1)
    return (predicted == torch.tensor(rows["label"][test].to_numpy())).float().mean().item()


def accuracy(mini: Path, model: str) -> float:
    return run_of(mini / "results/mini", model, "greedy_gnorm")[0]["accuracy"].iloc[0]


@pytest.mark.parametrize("model", MODELS)
def test_unpruned_accuracy(mini, model):
    assert accuracy(mini, model) >= 0.95


def test_three_tasks_need_more_than_words(mini):
    gaps = {m: accuracy(mini, m) - bag_of_words(mini / f"results/mini/{m}/dataset") for m in MODELS}
    assert sum(gap >= 0.15 for gap in gaps.values()) >= 3, gaps


def next_by_bigrams(folder: Path) -> float:
    """Next-token accuracy of the token that followed most often in the training rows."""
    _, tokenizer = checkpoints.load(folder / "checkpoint")
    ids = {which: [tokenizer(row["text"])["input_ids"] for row in read(folder / "dataset", which)] for which in LISTS}
    after: dict[int, Counter] = {}
    for row in ids["train"]:
        for one, following in pairwise(row):
            after.setdefault(one, Counter())[following] += 1
    pairs = [pair for row in ids["evaluation"] for pair in pairwise(row)]
    right = [one in after and after[one].most_common(1)[0][0] == following for one, following in pairs]
    return sum(right) / len(right)


@pytest.mark.parametrize("model", DECODERS)
def test_decoders_learn_what_only_attention_tells(mini, model):
    folder = mini / f"results/mini/{model}"
    steps, _ = run_of(folder.parent, model, "greedy_gnorm")
    assert steps["accuracy"].iloc[0] >= next_by_bigrams(folder) + 0.15
    assert steps["accuracy"].iloc[0] >= steps["accuracy"].iloc[-1] + 0.2
    assert steps["perplexity"].iloc[0] < 3 < steps["perplexity"].iloc[-1]
    assert (np.log(steps["perplexity"]) - steps["loss"]).abs().max() < 1e-4


@pytest.mark.parametrize("model", DECODERS)
def test_speed_and_text_of_decoders(mini, model):
    speeds = pd.read_csv(mini / f"results/mini/{model}/speed.csv")
    assert (speeds["tokens_per_second"] > 0).all() and speeds["strategy"].nunique() == 5
    whole = speeds[speeds["heads_pruned"] == 0]
    assert whole["text"].nunique() == 1 and len(whole["text"].iloc[0].split()) >= 3
    assert speeds["lexical_diversity"].between(0, 1).all() and speeds["repetition"].between(0, 1).all()


def test_the_verdict_has_sentinels_claims(mini):
    verdict = pd.read_csv(mini / "results/mini/verdict.csv")
    own = verdict[verdict["part"] == "Sentinel-AI"]
    assert len(own) == 4 * 6
    timed = own[own["item"] == "Speed rises with pruning"].set_index("model")["status"]
    assert set(timed[["GPT-2", "Llama"]]) <= {"reproduced", "differs", "undecided"} and timed["BERT"] == "not run"
    kept = own[own["item"].str.contains("keeps performance")].set_index("model")["this run"]
    assert kept.str.contains("perplexity").to_dict() == {title: title in ("GPT-2", "Llama") for title in kept.index}


@pytest.mark.parametrize("model", [*MODELS, *DECODERS])
def test_greedy_beats_its_inverse(mini, model):
    tidy = pd.read_csv(mini / "results/mini/tidy.csv")
    areas = pd.read_csv(mini / "results/mini/tables/areas.csv").set_index(["model", "strategy"])
    titles = {"ROBERTA": "RoBERTa", "XLM_ROBERTA": "XLM-RoBERTa", "GPT2": "GPT-2", "LLAMA": "Llama"}
    title = titles.get(model, model)
    assert areas.loc[(title, "greedy_gnorm"), "area"] > areas.loc[(title, "inverse_gnorm"), "area"]
    assert tidy[tidy["model"] == model].groupby("strategy")["run"].nunique().drop("random").eq(3).all()
    assert tidy[(tidy["model"] == model) & (tidy["strategy"] == "random")]["trial"].nunique() == 25


def test_runs_differ(mini):
    """Bootstrap resamples change the scores."""
    files = [run_of(mini / "results/mini", "BERT", "greedy_gnorm", run)[1] for run in range(3)]
    scores = [torch.load(file, weights_only=True)[run] for run, file in enumerate(files)]
    assert scores[0].shape == (32, 4, 8)
    assert not torch.equal(scores[0][0], scores[1][0]) and not torch.equal(scores[1][0], scores[2][0])


def test_a_second_run_does_nothing(mini):
    made = snakemake(mini)
    assert "Nothing to be done" in made.stdout + made.stderr


def digest(folder: Path) -> dict[str, str]:
    return {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest()
        for p in folder.iterdir()
        if p.is_file() and p.name != ".snakemake_timestamp"
    }


def test_training_again_gives_the_same_checkpoint(mini, tmp_path):
    """From the corpus on, in another folder: every file of the checkpoint is the same."""
    copy_workflow(tmp_path)
    target = "results/mini/BERT/checkpoint"
    made = snakemake(tmp_path, target)
    assert made.returncode == 0, made.stderr[-3000:]
    assert digest(tmp_path / target) == digest(mini / target)


def test_the_report_holds_every_figure_and_table(mini):
    text = (mini / "results/mini/report.html").read_text()
    for name in (
        "PruningResults",
        "RandomPruning",
        "allfinalsolutions",
        "gradientpooling",
        "AlbertPruning",
        "Criteria",
        "Quality",
    ):
        assert f"{name}.png" in text
        assert (mini / f"figures/mini/{name}.pdf").read_bytes().startswith(b"%PDF")
    for name in (
        "headline",
        "areas",
        "effects",
        "solutions",
        "parameters",
        "random",
        "entropy",
        "criteria",
        "controls",
        "metrics",
        "speed",
    ):
        assert f"{name}.html" in text
    assert str(ROOT) not in text


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("pruned", [False, True])
def test_float32_scores_are_as_exact_as_the_naive_ones(mini, name, pruned):
    """Errors against the naive loop in float64, on trained weights: here at most twice the naive loop's own."""
    folder = mini / f"results/mini/{name}"
    model, tokenizer = checkpoints.load(folder / "checkpoint")
    heads = head_map(model)
    if pruned:
        order = run_of(folder.parent, name, "greedy_gnorm")[0][["layer", "head"]].dropna().astype(int)
        surgery.prune(model, heads, order.values.tolist()[: len(order) // 2])
    rows = read(folder / "dataset", "calibration")
    one, made = in_order(tokenizer, rows, 1), make(tokenizer, rows, 2048)
    double, kept = copy.deepcopy(model).double(), heads.kept(model)
    exact = naive.sentences(double, heads, one)

    def error(score):
        return ((score - exact).abs() / exact)[kept].max().item()

    assert error(gnorm.score(double, heads, made)) < 1e-9
    own = error(naive.sentences(model, heads, one))
    # With half of the heads gone both errors are a few units in the last place, and their ratio is chance.
    allowed = max(2 * own, 8 * torch.finfo(torch.float32).eps) if pruned else 2 * own
    assert error(gnorm.score(model, heads, made)) <= allowed
    assert error(gnorm.score(model, heads, list(one))) <= 2 * own
