"""NaN, underflow, ties, and the same numbers twice."""

import copy
import json
import shutil

import oracles
import pandas as pd
import pytest
import torch
from support import copy_workflow, run_of, snakemake
from tokenizers import processors

from gnorm.engine import batches, passes, training
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.finite import NotFinite, check_slots
from gnorm.errors import UserError
from gnorm.files import save_tensors
from gnorm.models import surgery
from gnorm.pruning import runs
from gnorm.pruning.scoring import Scorer
from gnorm.pruning.trajectory import NEAR, follow, near_ties
from gnorm.scores import attribution, entropy, fisher, gnorm, gradient, mask_gradient, taylor
from gnorm.workbench import Workbench


def poison(tiny, layer, head, value=float("nan")):
    """A weight of one head's values; with `value`, whatever the head gives is not finite."""
    block = tiny.heads.blocks[layer]
    weight = tiny.model.get_submodule(block.value).weight
    weight[head * tiny.heads.width, 0] = value


BAD = [float("nan"), float("inf")]


@pytest.mark.parametrize("value", BAD)
@pytest.mark.fault("a weight is NaN or Inf when accuracy is measured", "stops; layer, head and row are named")
def test_accuracy_of_a_broken_model(tiny, value):
    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    layer = tiny.heads.shape[0] - 1
    poison(tiny, layer, 2, value)
    evaluation = Evaluation(tiny.batches(6), tiny.heads, 100)
    with pytest.raises(NotFinite, match=r"logits are not finite for row \d+: it begins in layer \d, head 2"):
        evaluation.accuracy(tiny.model)


@pytest.mark.fault("the embedding of one row's token is NaN", "stops; that row is named")
def test_the_row_is_named(make_tiny):
    tiny = make_tiny("bert")
    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    words = tiny.model.bert.embeddings.word_embeddings.weight
    encoded = [set(tiny.tokenizer(row["text"])["input_ids"]) for row in tiny.rows[:6]]
    own = next(iter(encoded[4] - set.union(*encoded[:4], encoded[5])))
    words[own, 0] = float("nan")
    with pytest.raises(NotFinite, match=f"for row {tiny.rows[4]['row']}: it begins at or below layer 0, in all heads"):
        Evaluation(tiny.batches(6), tiny.heads).accuracy(tiny.model)
    with pytest.raises(NotFinite, match=f"for row {tiny.rows[4]['row']}: it begins"):
        gnorm.score(tiny.model, tiny.heads, tiny.batches(6))


@pytest.mark.parametrize("value", BAD)
@pytest.mark.fault("a weight is NaN or Inf when heads are scored", "stops; layer, head and row are named")
def test_scores_of_a_broken_model(make_tiny, value, record_property):
    tiny = make_tiny("bert")
    poison(tiny, 1, 3, value)
    with pytest.raises(NotFinite, match=r"for row \d+: it begins in layer 1, head 3"):
        gnorm.score(tiny.model, tiny.heads, tiny.batches(6))
    tiny.model.config._attn_implementation = "eager"
    with pytest.raises(NotFinite, match=r"the attention entropy of layer 2, head 0 is nan for row \d+"):
        entropy.score(tiny.model, tiny.heads, tiny.batches(6))
    record_property("tried", 2)


GRADIENTS = (gnorm, gradient, mask_gradient, fisher, taylor, attribution)


def ranks_none(tiny, criterion, made, **settings):
    with pytest.raises(UserError, match=r"is [-\d.e]+ for all \d+ heads, so it ranks none: ") as refused:
        criterion.score(tiny.model, tiny.heads, made, **settings)
    return str(refused.value)


@pytest.mark.parametrize("writes", [False, True], ids=["classifier", "language model"])
@pytest.mark.fault(
    "a gradient score or the entropy of an unpruned model is 0 or the same for all heads",
    "stops; the score is named, and why",
)
def test_scores_that_rank_nothing_are_refused(make_tiny, writes, record_property):
    tiny = make_tiny("gpt2", writes=writes)
    one = [{**row, "text": "Z", "pair": None} for row in tiny.rows[:3]]
    tiny.tokenizer.backend_tokenizer.post_processor = processors.ByteLevel()
    of_one_token = batches.make(tiny.tokenizer, one, 200)
    for criterion in (gnorm, entropy):
        said = ranks_none(tiny, criterion, of_one_token)
        assert said.endswith("every row is a single token, which can attend to nothing else: take longer rows")
    if not writes:
        assert mask_gradient.score(tiny.model, tiny.heads, of_one_token).all()
    last, made = tiny.model.lm_head if writes else tiny.model.score, tiny.batches(6)
    kept = last.weight.clone()
    last.weight.zero_()
    for criterion in GRADIENTS:
        assert "is 0 for all 12 heads" in ranks_none(tiny, criterion, made)
    last.weight.copy_(kept)
    for criterion in GRADIENTS:
        assert len(criterion.score(tiny.model, tiny.heads, made).unique()) == 12
    for block in tiny.heads.blocks:  # all heads attend to all tokens alike
        part = tiny.model.get_submodule(block.query)
        part.weight[:, :32] = part.bias[:32] = 0
    for criterion in (gnorm, entropy):
        assert "weights of the checkpoint, of its last layer or of Q and K, may be 0" in ranks_none(
            tiny, criterion, made
        )
    record_property("tried", 10)


def test_what_is_left_of_a_model_may_have_equal_scores(tiny):
    """Late in a trajectory nothing that is left may reach the output; a stop would waste the run."""
    getattr(tiny.model.classifier, "out_proj", tiny.model.classifier).weight.zero_()
    surgery.prune(tiny.model, tiny.heads, [(0, 1)])
    for criterion in GRADIENTS:
        assert not criterion.score(tiny.model, tiny.heads, tiny.batches(6)).any()


def test_scores_that_are_equal_by_construction_are_kept(make_tiny):
    """With one head a layer its share of the layer's norm is 1; a single head has nobody to be compared with."""
    tiny = make_tiny("bert", heads=1)
    assert mask_gradient.score(tiny.model, tiny.heads, tiny.batches(6), normalize=True).unique().tolist() == [1]
    single = make_tiny("bert", layers=1, heads=1)
    single.model.classifier.weight.zero_()
    assert not gnorm.score(single.model, single.heads, single.batches(6)).any()


def test_entropies_of_shards_that_rank_nothing_are_refused(make_tiny, tmp_path):
    tiny = make_tiny("bert")
    for block in tiny.heads.blocks:
        part = tiny.model.get_submodule(block.query)
        part.weight.zero_()
        part.bias.zero_()
    made = entropy.shard(tiny.model, tiny.heads, tiny.batches(6), 1e-7, "C")
    of_rows = {"first": 0, "last": 5, "count": 6, "rows": torch.arange(6), "model": "", "variant": "C"}
    save_tensors(tmp_path / "shard.pt", {**of_rows, "epsilon": 1e-7, **made})
    with pytest.raises(UserError, match="the score entropy is .* for all 12 heads, so it ranks none"):
        entropy.from_shards(tiny.heads, [tmp_path / "shard.pt"], [1] * 6)


@pytest.mark.fault("a gradient overflows though the logits are finite", "stops; layer, head and row are named")
def test_a_gradient_that_is_not_finite(make_tiny, monkeypatch):
    tiny = make_tiny("bert")
    tiny.model.float()
    monkeypatch.setattr(passes, "SCALE", 2.0**127)
    with pytest.raises(NotFinite, match=r"the squared gradient norm of Q of layer 0, head 0 is (inf|nan) for row \d+"):
        gnorm.score(tiny.model, tiny.heads, tiny.batches(6))


@pytest.mark.fault("a criterion returns NaN", "stops; layer and head are named")
def test_a_criterion_that_returns_nan():
    values = torch.ones(2, 3)
    values[1, 2] = float("nan")
    with pytest.raises(NotFinite, match="the score own of layer 1, head 2 is nan"):
        check_slots(values, "the score own")


@pytest.mark.fault(
    "the loss of training is NaN", "stops; the step is named, and the row and head if the model is broken"
)
def test_training_that_diverges(make_tiny, monkeypatch, record_property):
    tiny = make_tiny("bert")
    rows = [row for row in tiny.rows if row["label"] >= 0][:20]
    entry = {"family": "bert", "layers": 2, "heads": 2, "width": 16, "feed_forward": 16, "epochs": 9, "batch": 8}
    before = torch.are_deterministic_algorithms_enabled()
    try:
        with pytest.raises(NotFinite, match=r"training step \d+: the (loss is nan.* row \d+|gradient of)"):
            training.train(entry | {"rate": 1e30}, tiny.tokenizer, rows, ["a", "b", "c"], 1)
    finally:
        torch.use_deterministic_algorithms(before)


def test_no_row_with_a_class(make_tiny):
    tiny = make_tiny("bert")
    for row in tiny.rows:
        row["label"] = -1
    with pytest.raises(UserError, match="no calibration row has a class of the model"):
        gnorm.score(tiny.model, tiny.heads, tiny.batches(6), objective="task_loss")


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.fault("gradient norms are near 1e-15, their product near 1e-45", "scores and order are those of float64")
def test_tiny_norms_do_not_underflow(make_tiny, precision):
    """A small last layer makes every gradient small; float32 has nothing below 1e-45."""
    tiny = make_tiny("bert")
    exact = copy.deepcopy(tiny)
    for each in (tiny, exact):
        each.model.classifier.weight.mul_(1e-14)
        each.model.classifier.bias.zero_()
    tiny.model.to(precision)
    found = gnorm.score(tiny.model, tiny.heads, tiny.batches(6))
    norms = found ** (1 / 3)
    assert norms.min() > 1e-17 and norms.max() < 1e-12
    expected = oracles.gnorm(exact.model, exact.heads, exact.tokenizer, exact.rows[:6])
    assert (found > 0).all()
    assert torch.allclose(found, expected, rtol=1e-9 if precision == torch.float64 else 1e-3, atol=0)
    assert torch.equal(found.flatten().argsort(), expected.flatten().argsort())


@pytest.mark.fault(
    "scores tie, or are closer than float32 computes", "ties go to the lowest (layer, head); both are logged"
)
def test_near_ties_are_reported(make_tiny, caplog):
    tiny = make_tiny("bert")
    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    scores = torch.arange(1.0, 13.0, dtype=torch.float64).reshape(3, 4)
    scores[1, 1] = scores[0, 2] * (1 + NEAR / 10)
    scores[2, 0] = scores[0, 1]
    evaluation = Evaluation(tiny.batches(4), tiny.heads)
    steps = list(follow(tiny.model, tiny.heads, evaluation, lambda _: (scores, {}), "lowest", "never"))
    order = [(step.layer, step.head) for step, _ in steps[1:]]
    assert order[:5] == [(0, 0), (0, 1), (2, 0), (0, 2), (1, 1)]
    close = near_ties(steps)
    assert [(step, a, b) for step, a, b, _ in close] == [(2, (0, 1), (2, 0)), (4, (0, 2), (1, 1))]
    assert close[0][3] == 0 and 0 < close[1][3] < NEAR
    runs.report(0, steps, "lowest")
    assert "run 0: 2 of 12 choices are near-ties" in caplog.text


def greedy(folder, threads, tokens):
    settings = {"objective": "logit_norm", "granularity": "sentence", "precision": "float32"}
    strategy = {"score": "gnorm", "prune": "lowest", "rescore": "every_step", "settings": settings}
    before = torch.get_num_threads()
    try:
        where = {"checkpoint": folder / "checkpoint", "dataset_folder": folder / "dataset"}
        bench = Workbench.load(**where, tokens=tokens, threads=threads)
        score = Scorer(bench, bench.heads, strategy, seed=2026)
        evaluation = Evaluation(score.evaluation_batches(bench), bench.heads, 500)
        return list(follow(bench.model, bench.heads, evaluation, score))
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.mini
@pytest.mark.parametrize("model", ["BERT", "ALBERT", "ROBERTA", "XLM_ROBERTA"])
@pytest.mark.fault("another number of threads or batch size", "the same order of heads, or it departs at a near-tie")
def test_threads_and_batches_keep_the_order(mini, model, record_property):
    folder = mini / "results/mini" / model
    base = greedy(folder, 1, 2048)
    stored, _ = run_of(folder.parent, model, "greedy_gnorm")
    order = [(s.layer, s.head) for s, _ in base[1:]]
    assert order == list(zip(stored["layer"][1:].astype(int), stored["head"][1:].astype(int), strict=True))
    close = {step for step, *_ in near_ties(base)}
    for threads, tokens in ((2, 2048), (1, 512), (2, 8192)):
        other = [(s.layer, s.head) for s, _ in greedy(folder, threads, tokens)[1:]]
        departs = next((i + 1 for i, (a, b) in enumerate(zip(order, other, strict=True)) if a != b), None)
        assert departs is None or departs in close, f"{threads} threads, {tokens} tokens: step {departs}"
    record_property("tried", 3)


@pytest.mark.slow
@pytest.mark.fault(
    "the same configuration is run twice", "every result is the same bytes, but for measured times and the report"
)
def test_the_same_files_twice(smoke, tmp_path):
    tree = copy_workflow(tmp_path / "again")
    made = snakemake(tree, "--quiet", "rules", "--config", "suite=smoke")
    assert made.returncode == 0, made.stderr[-3000:]
    compared = 0
    for path in sorted(p for top in ("results", "figures") for p in (smoke / top / "smoke").rglob("*") if p.is_file()):
        name = path.relative_to(smoke)
        if {"logs", "benchmarks"} & set(name.parts) or path.name in (
            ".snakemake_timestamp",
            "report.html",
            "latency.json",
        ):
            continue
        other = tree / name
        if ("trajectories" in name.parts and path.suffix == ".csv") or path.name == "tidy.csv":
            one, two = (pd.read_csv(p, dtype=str).drop(columns="seconds") for p in (path, other))
            pd.testing.assert_frame_equal(one, two)
        elif path.name == "all.xlsx":
            one, two = (pd.read_excel(p, sheet_name=None, dtype=str) for p in (path, other))
            for sheet in one:
                pd.testing.assert_frame_equal(*(t[sheet].drop(columns="seconds", errors="ignore") for t in (one, two)))
        elif {"trajectories", "shards"} & set(
            name.parts
        ) and path.suffix == ".json":  # the table's digest has its seconds
            one, two = (json.loads(p.read_text())["belongs_to"] for p in (path, other))
            assert one == two, name
        elif path.name == "README.md":  # a card, which says how long the model takes
            one, two = (
                [line for line in p.read_text().splitlines() if "milliseconds" not in line] for p in (path, other)
            )
            assert one == two and len(one) > 20, name
        else:
            assert path.read_bytes() == other.read_bytes(), name
        compared += 1
    assert compared > 100
    shutil.rmtree(tree)
