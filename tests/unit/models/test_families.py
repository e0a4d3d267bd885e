"""Families beside the paper's: fused projections, grouped query heads, causal attention."""

import copy
from types import SimpleNamespace

import entropy_shard
import export_solution
import find_solution
import gradient_change
import numpy as np
import oracles
import pandas as pd
import prune_heads
import pytest
import torch
from support import FAMILIES, OTHERS, make_checkpoint, make_dataset, part_files
from transformers import AutoConfig, AutoModelForSequenceClassification

from gnorm.data.rows import read
from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation
from gnorm.errors import UserError
from gnorm.files import read_json, write_json
from gnorm.models import checkpoints, export, surgery
from gnorm.models.accounting import count
from gnorm.models.gates import Gates
from gnorm.models.heads import PARTS, head_map
from gnorm.models.loaded import Loaded
from gnorm.models.slots import eager, projection
from gnorm.pruning.trajectory import follow
from gnorm.resume import State
from gnorm.scores import (
    attribution,
    entropy,
    gnorm,
    gradient,
    hard_concrete,
    leave_one_out,
    magnitude,
    mask_gradient,
    random,
    shapley,
    taylor,
)
from gnorm.workbench import Workbench

EPSILON = 1e-7


ALL = [*OTHERS, "llama by query head", "qwen2 by group"]


def build(name, make_tiny):
    family, _, unit = name.partition(" by ")
    made = make_tiny(family)
    if unit:
        made.model.config.prune_by = unit.removesuffix(" head")
        made.heads = head_map(made.model)
    return made


@pytest.fixture(params=ALL)
def other(request, make_tiny):
    return build(request.param, make_tiny)


@pytest.fixture(params=[*FAMILIES, *ALL])
def any_family(request, make_tiny):
    return build(request.param, make_tiny)


def logits(model, batch):
    with torch.no_grad():
        return model(**batch.inputs).logits


def everything(heads):
    return [(row, head) for row in range(heads.shape[0]) for head in range(heads.heads)]


def cases(heads):
    whole = [(1, head) for head in range(heads.heads)]
    return [[(0, 1)], [(0, 0), (2, heads.heads - 1)], [(0, 0), *whole], everything(heads)]


def relative(found, expected):
    kept = expected > 0
    assert (found[~kept] == 0).all()
    return ((found - expected).abs()[kept] / expected[kept]).max().item()


def gated_gnorm(tiny, slots, rows):
    """Scores of what is left when slots are gated: the oracle on the whole model with W_O zeroed there."""
    zeroed = copy.deepcopy(tiny.model)
    oracles.zero_heads(zeroed, tiny.heads, slots)
    return expected_gnorm(tiny, zeroed, rows)


def expected_gnorm(tiny, model, rows):
    if tiny.heads.textpruner or tiny.heads.blocks[0].query.endswith("q_lin"):  # laid out as in BERT
        return oracles.gnorm(model, tiny.heads, tiny.tokenizer, rows)
    unit = "group" if tiny.heads.queries > 1 else "query"
    keys = getattr(model.config, "num_key_value_heads", 4)
    return oracles.grouped_gnorm(model, 4, keys, unit, tiny.tokenizer, rows)


def test_structural_equals_zeroed_equals_gated(other):
    (batch,) = other.batches(6, tokens=10_000)
    untouched = logits(other.model, batch)
    for slots in cases(other.heads):
        pruned, zeroed = copy.deepcopy(other.model), copy.deepcopy(other.model)
        surgery.prune(pruned, other.heads, slots)
        oracles.zero_heads(zeroed, other.heads, slots)
        expected = logits(zeroed, batch)
        assert (expected - untouched).abs().max() > 1e-6  # the heads matter
        assert (logits(pruned, batch) - expected).abs().max() < 1e-12
        with surgery.gated(other.model, other.heads, slots):
            assert (logits(other.model, batch) - expected).abs().max() < 1e-12
        assert torch.equal(logits(other.model, batch), untouched)
        assert {p.dtype for p in pruned.parameters()} == {torch.float64}
        assert not any(p.requires_grad for p in pruned.parameters())
        assert (~other.heads.kept(pruned)).nonzero().tolist() == sorted(map(list, slots))


def test_one_at_a_time_equals_at_once(other):
    (batch,) = other.batches(6, tokens=10_000)
    for slots in cases(other.heads)[1:]:
        at_once, by_and_by = copy.deepcopy(other.model), copy.deepcopy(other.model)
        surgery.prune(at_once, other.heads, slots)
        for slot in slots[::-1]:
            surgery.prune(by_and_by, other.heads, [slot])
        assert torch.equal(logits(by_and_by, batch), logits(at_once, batch))
        assert torch.equal(other.heads.kept(by_and_by), other.heads.kept(at_once))
        assert count(by_and_by) == count(at_once)


def test_parameters_follow_the_closed_form(other):
    heads, hidden, before = other.heads, other.heads.hidden, count(other.model)
    qkv_bias = 1 if other.model.get_submodule(heads.blocks[0].query).bias is not None else 0
    for row, head in everything(heads):
        # A slot takes its rows of W_Q and columns of W_O; K and V go with the last slot that uses them.
        own = heads.width * (2 * hidden + qkv_bias)
        last = head % heads.share == heads.share - 1
        shared = 2 * heads.key_width * (hidden + qkv_bias) if last else 0
        surgery.prune(other.model, heads, [(row, head)])
        assert before - count(other.model) == own + shared
        before = count(other.model)


def test_gnorm_equals_the_oracle(other):
    rows = other.rows[:3]
    expected = expected_gnorm(other, other.model, rows)
    assert expected.shape == other.heads.shape and (expected > 0).all()
    assert relative(gnorm.score(other.model, other.heads, other.batches(3)), expected) < 1e-9


def test_gnorm_of_a_pruned_model_equals_that_of_the_gated_one(other):
    """Weights of kept heads have the same gradients whether the others are gone or gated."""
    for slots in cases(other.heads)[1:3]:
        expected = gated_gnorm(other, slots, other.rows[:3])
        pruned = copy.deepcopy(other.model)
        surgery.prune(pruned, other.heads, slots)
        found = gnorm.score(pruned, other.heads, other.batches(3))
        kept = other.heads.kept(pruned)
        assert (found[~kept] == 0).all()
        assert relative(found[kept], expected[kept]) < 1e-9


def test_a_padded_batch_gives_what_the_row_alone_gives(other):
    """Whatever side the tokenizer pads on by itself."""
    alone = torch.cat([logits(other.model, batch) for batch in other.batches(8, tokens=1)])
    scores = gnorm.score(other.model, other.heads, other.batches(8, tokens=1))
    order = torch.cat([batch.positions for batch in other.batches(8, tokens=1)])
    for side in ("right", "left"):
        other.tokenizer.padding_side = side
        (batch,) = other.batches(8, tokens=10_000)
        assert batch.mask.min() == 0
        assert (logits(other.model, batch)[batch.positions.argsort()] - alone[order.argsort()]).abs().max() < 1e-12
        assert relative(gnorm.score(other.model, other.heads, [batch]), scores) < 1e-9


@pytest.mark.parametrize("variant", entropy.VARIANTS)
def test_entropy_of_padded_batches_equals_the_naive_loop(other, variant, monkeypatch):
    softmax = torch.nn.functional.softmax  # the library's eager attention rounds to float32 here
    monkeypatch.setattr(torch.nn.functional, "softmax", lambda x, dim=None, dtype=None: softmax(x, dim=dim))
    (batch,) = other.batches(4, tokens=10_000)
    assert batch.mask.min() == 0
    found = entropy.of_rows(other.model, other.heads, batch, EPSILON)
    other.model.config._attn_implementation = "eager"
    arguments = (other.model, other.heads, other.tokenizer, other.rows[:4], EPSILON, variant, other.heads.causal)
    expected = oracles.entropy(*arguments).unflatten(2, (other.heads.heads, other.heads.queries)).mean(3)
    assert (found.values[variant] - expected[batch.positions]).abs().max() < 1e-12
    assert found.nan.sum() == 0  # a later token is no column, so A needs no limit


def test_entropy_of_pruned_heads_is_zero_and_of_others_stays(other):
    batch = other.batches(4, tokens=10_000)[0]
    before = entropy.of_rows(other.model, other.heads, batch, EPSILON).values["C"]
    surgery.prune(other.model, other.heads, cases(other.heads)[2])
    after = entropy.of_rows(other.model, other.heads, batch, EPSILON).values["C"]
    kept = other.heads.kept(other.model)
    assert (after[:, ~kept] == 0).all()
    # In the layer whose input is the same; the library rounds some families' attention to float32.
    assert (after[:, 0, kept[0]] - before[:, 0, kept[0]]).abs().max() < 1e-6


def test_evaluation_with_layers_reused_equals_that_without(other):
    other.rows = [row for row in other.rows if row["label"] >= 0]
    found = []
    for memory_mb in (0, 100):
        model, evaluation = copy.deepcopy(other.model), Evaluation(other.batches(20), other.heads, memory_mb)
        calibration = other.batches(2)
        steps = follow(model, other.heads, evaluation, lambda m, c=calibration: (gnorm.score(m, other.heads, c), {}))
        found.append([(s.layer, s.head, s.score, s.correct, s.heads_left, s.parameters) for s, _ in steps])
        assert len(evaluation.kept_layers) == (2 if memory_mb else 0)
    assert found[0] == found[1]
    assert found[0][-1][4] == 0 and len(found[0]) == len(everything(other.heads)) + 1


def test_weights_by_slot_are_what_pruning_removes(other):
    """Zeroing a slot's weights through `of_slots` zeroes what its head gives; K/V blocks stay for their other users."""
    for part in PARTS:
        blocks = other.heads.of_slots(other.model, 1, part)
        width = other.heads.key_width if part in ("key", "value") else other.heads.width
        assert blocks.shape == (other.heads.heads, width, other.heads.hidden)
    (batch,) = other.batches(3, tokens=10_000)
    slot = (1, other.heads.heads - 1)
    with surgery.gated(other.model, other.heads, [slot]):
        expected = logits(other.model, batch)
    other.heads.of_slots(other.model, 1, "output")[slot[1]] = 0  # a view
    assert (logits(other.model, batch) - expected).abs().max() < 1e-12


def test_gates(any_family):
    model, heads = any_family.model, any_family.heads
    (batch,) = any_family.batches(4, tokens=10_000)
    untouched, scaled = logits(model, batch), copy.deepcopy(model)
    last = (heads.shape[0] - 1, heads.heads - 1)
    for (row, head), value in (((0, 0), 0.25), (last, 0.0)):
        heads.of_slots(scaled, row, "output")[head] *= value
    with Gates(model, heads) as gates:
        assert torch.equal(logits(model, batch), untouched)
        gates[0, 0], gates[last] = 0.25, 0
        weakened = logits(model, batch)
        assert (weakened - untouched).abs().max() > 1e-6
        assert (weakened - logits(scaled, batch)).abs().max() < 1e-12
        assert gates.closed == [last] and gates[0, 0] == 0.25
        gates.open()
        assert torch.equal(logits(model, batch), untouched)  # to the last bit
        gates[0, 0] = 0.25
        gates.close([last])
        assert surgery.remove_closed(gates) == [last]
        assert (logits(model, batch) - weakened).abs().max() < 1e-12
        assert gates.closed == []
        for value in (-0.1, 1.5, float("nan")):
            with pytest.raises(ValueError, match="from 0 to 1"):
                gates[0, 0] = value
    assert not torch.equal(logits(model, batch), weakened)  # gates are gone, the pruned head stays so


def test_gates_stay_when_heads_are_pruned(any_family):
    """Whoever prunes, and whether the layer is one that loses a head; they go when they are told to."""
    model, heads = any_family.model, any_family.heads
    (batch,) = any_family.batches(4, tokens=10_000)
    slots = [(0, 1), *cases(heads)[2][1:]] if heads.shape[0] > 1 else [(0, 1), (0, 2)]
    plain = copy.deepcopy(model)
    surgery.prune(plain, heads, slots)
    with Gates(model, heads) as gates:
        gates[0, 0], gates[heads.shape[0] - 1, heads.heads - 1] = 0.5, 0.25
        gates.close(slots)
        expected = logits(model, batch)
        surgery.prune(model, heads, slots)
        assert (logits(model, batch) - expected).abs().max() < 1e-12
        assert (logits(plain, batch) - expected).abs().max() > 1e-6
        gates.open()
        assert torch.equal(logits(model, batch), logits(plain, batch))
        gates[0, 0] = 0
        assert not torch.equal(logits(model, batch), logits(plain, batch))
    assert torch.equal(logits(model, batch), logits(plain, batch))


def test_whatever_watches_a_module_still_does_when_heads_are_pruned(any_family):
    model, block, calls = any_family.model, any_family.heads.blocks[0], []
    watched = projection(model, block.query), model.get_submodule(block.output)
    handles = [
        handle
        for module in watched
        for handle in (
            module.register_forward_pre_hook(lambda *_: calls.append("before")),
            module.register_forward_hook(lambda *_, **__: calls.append("after"), with_kwargs=True),
        )
    ]
    (batch,) = any_family.batches(2, tokens=10_000)
    logits(model, batch)
    expected = calls.copy()
    surgery.prune(model, any_family.heads, [(0, 1)])
    calls.clear()
    logits(model, batch)
    assert calls == expected and {"before", "after"} == set(calls)
    for handle in handles:
        handle.remove()
    calls.clear()
    logits(model, batch)
    assert not calls


def test_batches_leave_out_what_the_model_does_not_take(other):
    made = batches.make(other.tokenizer, other.rows[:2], 1000)
    assert ("token_type_ids" in made[0].inputs) == (other.model.config.model_type == "electra")


def test_a_decoder_and_its_tokenizer_agree_on_padding(make_tiny):
    tiny = make_tiny("gpt2")
    model, tokenizer = tiny.model, copy.deepcopy(tiny.tokenizer)
    model.config.pad_token_id = None
    checkpoints.fit(model, tokenizer)
    assert model.config.pad_token_id == tokenizer.pad_token_id == tiny.tokenizer.pad_token_id
    tokenizer.pad_token = None
    checkpoints.fit(model, tokenizer)  # now the configuration knows
    assert tokenizer.pad_token_id == tiny.tokenizer.pad_token_id
    tokenizer.pad_token, model.config.pad_token_id = None, None
    with pytest.raises(UserError, match="GPT has no padding token: set `pad_token` of its tokenizer"):
        checkpoints.fit(model, tokenizer, "GPT")


OPT = {"ffn_dim": 64, "word_embed_proj_dim": 32, "init_std": 0.25}  # no family that is known: searched for


@pytest.mark.parametrize("family", [*OTHERS, "opt"])
def test_through_the_scripts_of_the_workflow(family, make_tiny, tmp_path):
    """A user's folder and rows, from the dataset to the solution, as the rules run them."""
    tiny = make_tiny("roberta" if family == "opt" else family)
    if family == "opt":
        config = AutoConfig.for_model(
            "opt",
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_labels=2,
            vocab_size=len(tiny.tokenizer),
            pad_token_id=1,
            max_position_embeddings=52,
            **OPT,
        )
        AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path / "own")
    else:
        model = AutoModelForSequenceClassification.from_config(tiny.model.config)  # the library's own norms
        model.load_state_dict(tiny.model.float().state_dict())
        model.save_pretrained(tmp_path / "own")
    tiny.tokenizer.save_pretrained(tmp_path / "own")
    rows = [row for row in tiny.rows if row["label"] >= 0]
    pd.DataFrame(rows)[["text", "label"]].to_csv(tmp_path / "own.csv", index=False)
    data = {
        "source": "file",
        "path": str(tmp_path / "own.csv"),
        "text": "text",
        "pair": None,
        "label": "label",
        "classes": sorted({row["label"] for row in rows}),
        "unscored": [],
        "order": "as_is",
    }
    checkpoint = {"source": "local", "path": str(tmp_path / "own")}
    if family == "qwen2":
        checkpoint["prune_by"] = "query"
    counts = {"train": 0, "calibration": 4, "entropy": "same", "evaluation": 20, "disjoint": True}
    folder, at = tmp_path / "dataset", {name: str(tmp_path / name) for name in ("checkpoint", "heads.json")}
    make_dataset(data, checkpoint, counts, folder, "OWN")
    make_checkpoint(folder, folder / "tokenizer", checkpoint, *at.values())
    said = read_json(at["heads.json"])
    slots = said["layers"] * said["heads"]
    assert slots == {"llama": 6}.get(family, 12)
    shard, bench = tmp_path / "0-3.pt", {"dataset_folder": folder, "checkpoint": at["checkpoint"]}
    bench |= {"tokens": 100, "memory_mb": 4000, "reuse_mb": 10}
    outputs = SimpleNamespace(shard=shard, mean=tmp_path / "mean.pt")
    eager = Workbench.load(**bench, attention="eager", keeps_outputs=False)
    entropy_shard.main(bench=eager, first=0, last=3, epsilon=EPSILON, variant="C", outputs=outputs)
    assert torch.load(shard)["ranked"].shape == (4, 3, said["heads"]) and (torch.load(shard)["ranked"] > 0).all()
    found = {}
    for score, shards in (("gnorm", []), ("entropy", [str(shard)]), ("entropy", [])):
        rescore = "never" if shards else "every_step"
        strategy = {"score": score, "prune": "lowest", "rescore": rescore, "settings": {}}
        outputs = part_files(tmp_path / score / rescore / "0-0", "trajectories", "scores")
        prune_heads.main(
            bench=Workbench.load(**bench),
            strategy=strategy,
            runs=[0],
            seed=1,
            stop={},
            state=State(tmp_path / f"{score}.{rescore}.pt", {"strategy": strategy}),
            outputs=outputs,
            shards=shards,
        )
        found[score, rescore] = pd.read_csv(outputs.trajectories)
    for table in found.values():
        assert len(table) == slots + 1 and table["heads_left"].tolist() == list(range(slots, -1, -1))
        assert table["parameters"].is_monotonic_decreasing and table["accuracy"].nunique() > 1
    assert (
        found["entropy", "never"]
        .loc[1, ["layer", "head"]]
        .equals(found["entropy", "every_step"].loc[1, ["layer", "head"]])
    )
    loaded = Loaded.load(checkpoint=at["checkpoint"])
    gradient_change.main(bench=loaded, rows=read(folder, "calibration"), output=tmp_path / "change.npz")
    change = np.load(tmp_path / "change.npz")["change"]
    assert change.shape[1] == said["heads"] and np.abs(change).max() > 0
    names = {"solution": "solution.json", "mask": "mask.csv", "parameters": "parameters.csv"}
    outputs = SimpleNamespace(**{key: tmp_path / name for key, name in names.items()})
    write_json(tmp_path / "controls.json", {"all heads": {"correct": 1, "evaluated": 4}})
    find_solution.main(
        bench=loaded,
        trajectory=tmp_path / "gnorm" / "every_step" / "0-0.csv",
        controls=tmp_path / "controls.json",
        settings={"strategy": "greedy_gnorm", "tolerance": 0.1, "fixed": slots // 2},
        outputs=outputs,
    )
    solution, table = read_json(outputs.solution), pd.read_csv(outputs.parameters)
    assert solution["heads_pruned"] == slots // 2
    assert solution["after"]["parameters"] == found["gnorm", "every_step"]["parameters"][slots // 2]
    assert (table["parameters after"] <= table["parameters before"]).all()
    top = table[table["module"].str.count(r"\.") == 0]["parameters after"].tolist()
    assert top[0] == sum(top[1:])
    export_solution.main(
        bench=Workbench.load(**bench, on="cpu"),
        solution=outputs.solution,
        heads=at["heads.json"],
        facts={"title": "Own", "suite": "test", "seen": 0},
        outputs=SimpleNamespace(
            checkpoint=tmp_path / "out", dense=tmp_path / "dense", latency=tmp_path / "latency.json"
        ),
    )  # compares logits
    again, heads, _ = export.load(tmp_path / "out")
    assert count(again) == solution["after"]["parameters"]
    assert (~heads.kept(again)).nonzero().tolist() == sorted(solution["pruned_slots"])


@pytest.mark.parametrize("gone", [[], [(0, 1), (2, 0)]], ids=["whole", "pruned"])
def test_criteria_of_gradients_gates_and_attention(other, gone):
    """Against full weight gradients, real gates, real surgery and the library's attention, sentence by sentence."""
    if gone:
        surgery.prune(other.model, other.heads, gone)
    model, heads = other.model, other.heads
    rows = [row for row in other.rows if row["label"] >= 0][:4]
    kept, made = heads.kept(model), batches.in_order(other.tokenizer, rows, 3)
    expected = {name: torch.zeros(heads.shape, dtype=torch.float64) for name in ("gradient", "mask", "taylor", "left")}
    for row in rows:
        for index, block in enumerate(heads.blocks):
            for part in PARTS:
                weight = projection(model, getattr(block, part)).weight.requires_grad_()
                (found,) = torch.autograd.grad(oracles.loss(model, other.tokenizer, row), weight)
                weight.requires_grad_(False)
                expected["gradient"][index, kept[index]] += heads.of_slots(model, index, part, found).norm(dim=(1, 2))
        with Gates(model, heads) as gates:
            gates.values.requires_grad_()
            (found,) = torch.autograd.grad(oracles.loss(model, other.tokenizer, row), gates.values)
        expected["mask"] += found.abs()
    whole = sum(oracles.loss(model, other.tokenizer, row).item() for row in rows)
    for slot in map(tuple, kept.nonzero().tolist()):
        less = copy.deepcopy(model)
        surgery.prune(less, heads, [slot])
        expected["left"][slot] = sum(oracles.loss(less, other.tokenizer, row).item() for row in rows) - whole
    criteria = {"gradient": gradient, "mask": mask_gradient, "left": leave_one_out}
    for name, criterion in criteria.items():
        found = criterion.score(model, heads, made)
        assert torch.allclose(found, expected[name] / len(rows), rtol=1e-9, atol=1e-12), name
    model.config._attn_implementation = "eager"  # which rounds a decoder's softmax to float32
    for row in rows:
        model.requires_grad_()
        attentions = model(**oracles.one(other.tokenizer, row), output_attentions=True)
        value = torch.nn.functional.cross_entropy(attentions.logits, torch.tensor([row["label"]]))
        for index, (a, g) in enumerate(
            zip(attentions.attentions, torch.autograd.grad(value, attentions.attentions), strict=True)
        ):
            of_heads = (a * g).detach()[0].sum((1, 2))
            expected["taylor"][index, kept[index]] += of_heads.view(-1, heads.queries).sum(1).abs()
        model.requires_grad_(False)
    found = taylor.score(model, heads, made)
    assert (found[kept] > 0).all() and torch.allclose(found, expected["taylor"] / len(rows), rtol=1e-4, atol=1e-7)


def test_criteria_that_need_the_attention_matrix_ask_for_it(other):
    """Whatever attention the model was loaded with; decoders round a softmax that has its matrix to float32."""
    rows = [row for row in other.rows if row["label"] >= 0][:3]
    made, before = batches.in_order(other.tokenizer, rows, 3), other.model.config._attn_implementation
    expected = mask_gradient.score(other.model, other.heads, made)
    assert torch.allclose(taylor.score(other.model, other.heads, made), expected, rtol=1e-4, atol=1e-7)
    found = attribution.score(other.model, other.heads, made, steps=2)
    assert other.model.config._attn_implementation == before
    with eager(other.model):
        naive = oracles.attribution(other.model, other.heads, other.tokenizer, rows, 2, "label_probability")
    assert naive.abs().max() > 1e-4 and torch.allclose(found, naive, rtol=1e-4, atol=1e-7)


def test_shapley(other):
    """Slot by slot in the orders that were drawn; together they are what all heads add."""
    rows = [row for row in other.rows if row["label"] >= 0][:3]
    surgery.prune(other.model, other.heads, [(1, 0)])
    rest = [slot for slot in everything(other.heads) if slot != (1, 0)]
    orders = [random.order(rest, "shapley", 4, i) for i in range(2)]
    expected = oracles.shapley(other.model, other.heads, other.tokenizer, rows, orders)
    made = batches.in_order(other.tokenizer, rows, 3)
    found = shapley.score(other.model, other.heads, made, permutations=2, seed=4)
    assert found[1, 0] == 0 and expected.abs().max() > 1e-6
    assert torch.allclose(found, expected.mean(0), rtol=1e-9, atol=1e-12)
    without = oracles.LossWithout(other.model, other.heads, other.tokenizer, rows)
    assert found.sum().item() == pytest.approx(without(rest) - without([]), abs=1e-9)


def test_magnitude(other):
    """Fused, transposed and shared weights, compared with parts cut out by hand; pruning leaves the others alone."""
    model, heads = other.model, other.heads
    if heads.textpruner or heads.blocks[0].query.endswith("q_lin"):
        expected = oracles.magnitude(model, heads)
    else:
        keys = getattr(model.config, "num_key_value_heads", 4)
        expected = oracles.grouped_magnitude(model, 4, keys, "group" if heads.queries > 1 else "query")
    assert expected.shape == heads.shape and len(expected.unique()) == expected.numel()
    assert torch.allclose(magnitude.score(model, heads, []), expected, rtol=1e-12)
    gone = [(0, 1), (2, 0)]
    surgery.prune(model, heads, gone)
    for slot in gone:
        expected[slot] = 0
    assert torch.allclose(magnitude.score(model, heads, []), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["gpt2", "llama", "llama by query head"])
def test_hard_concrete(make_tiny, name):
    other, settings = build(name, make_tiny), {"steps": 2, "rate": 0.2, "penalty": 0.5, "seed": 5}
    other.rows = [row for row in other.rows if row["label"] >= 0][:3]
    surgery.prune(other.model, other.heads, [(1, 0)])
    expected, kept = oracles.hard_concrete(other, **settings), other.heads.kept(other.model)
    found = hard_concrete.score(other.model, other.heads, batches.in_order(other.tokenizer, other.rows, 2), **settings)
    assert (found[~kept] == 0).all() and (found[kept] != hard_concrete.START).all()
    assert (found - expected).abs().max() < 1e-5  # differences are good for so much
