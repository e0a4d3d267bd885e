"""Removing heads structurally, by gate, and by zeroing weights is the same thing."""

import copy
import os

import oracles
import torch

from gnorm.models import checkpoints, surgery
from gnorm.models.accounting import count
from gnorm.models.heads import head_map
from gnorm.models.rebuild import rebuilding
from gnorm.models.versions import DTYPE


def logits(model, batch):
    with torch.no_grad():
        return model(**batch.inputs).logits


def cases(heads):
    if heads.shape[0] == 1:
        return [[(0, 2)], [(0, 0), (0, 3)], [(0, h) for h in range(heads.heads)]]
    whole = [(1, h) for h in range(heads.heads)]
    everything = [(row, h) for row in range(heads.shape[0]) for h in range(heads.heads)]
    return [[(0, 2)], [(0, 0), (2, 1), (2, 3)], whole, everything]


def test_structural_equals_zeroed_equals_gated(tiny):
    (batch,) = tiny.batches(6, tokens=10_000)
    untouched = logits(tiny.model, batch)
    for slots in cases(tiny.heads):
        pruned, zeroed = copy.deepcopy(tiny.model), copy.deepcopy(tiny.model)
        surgery.prune(pruned, tiny.heads, slots)
        oracles.zero_heads(zeroed, tiny.heads, slots)
        expected = logits(zeroed, batch)
        assert (expected - untouched).abs().max() > 1e-6  # the heads matter
        assert torch.allclose(logits(pruned, batch), expected, atol=1e-12)
        with surgery.gated(tiny.model, tiny.heads, slots):
            assert torch.allclose(logits(tiny.model, batch), expected, atol=1e-12)
        assert torch.equal(logits(tiny.model, batch), untouched)
        assert next(pruned.parameters()).dtype == torch.float64
        assert not any(p.requires_grad for p in pruned.parameters())


def test_one_at_a_time_equals_at_once(tiny):
    (batch,) = tiny.batches(6, tokens=10_000)
    slots = cases(tiny.heads)[1]
    at_once = copy.deepcopy(tiny.model)
    surgery.prune(at_once, tiny.heads, slots)
    for slot in slots:
        surgery.prune(tiny.model, tiny.heads, [slot])
    assert torch.equal(logits(tiny.model, batch), logits(at_once, batch))
    assert torch.equal(tiny.heads.kept(tiny.model), tiny.heads.kept(at_once))


def test_parameters_follow_the_closed_form(tiny):
    before = count(tiny.model)
    for pruned, slot in enumerate(cases(tiny.heads)[-1], start=1):
        surgery.prune(tiny.model, tiny.heads, [slot])
        width, hidden = tiny.heads.width, tiny.model.config.hidden_size
        assert before - count(tiny.model) == pruned * (4 * hidden * width + 3 * width)


def test_albert_prunes_a_head_in_all_layers_at_once(make_tiny):
    tiny = make_tiny("albert", layers=5)
    assert tiny.heads.shape == (1, 4) and tiny.heads.total == 20
    surgery.prune(tiny.model, tiny.heads, [(0, 1)])
    assert tiny.heads.left(tiny.model) == 15
    (batch,) = tiny.batches(2, tokens=10_000)
    tiny.model.config._attn_implementation = "eager"
    attentions = tiny.model(**batch.inputs, output_attentions=True).attentions
    assert [a.shape[1] for a in attentions] == [3] * 5


def test_a_pruned_model_saves_and_loads(tiny, tmp_path):
    from transformers import AutoModelForSequenceClassification

    surgery.prune(tiny.model, tiny.heads, cases(tiny.heads)[2])
    tiny.model.save_pretrained(tmp_path)
    with rebuilding():
        again = AutoModelForSequenceClassification.from_pretrained(tmp_path, **{DTYPE: torch.float64}).eval()
    (batch,) = tiny.batches(4, tokens=10_000)
    assert torch.equal(logits(again, batch), logits(tiny.model, batch))
    assert torch.equal(head_map(again).kept(again), tiny.heads.kept(tiny.model))


def test_nothing_is_written(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    surgery.prune(tiny.model, tiny.heads, [(0, 0)])
    assert os.listdir(tmp_path) == []


def test_the_fused_activation_is_the_same_function(make_tiny):
    tiny = make_tiny("albert")
    assert tiny.model.config.hidden_act == "gelu_new"
    (batch,) = tiny.batches(4, tokens=10_000)
    before = tiny.model(**batch.inputs).logits
    fused = checkpoints.fuse(copy.deepcopy(tiny.model))
    kinds = {type(module).__name__ for module in fused.modules()}
    assert "GELU" in kinds and "NewGELUActivation" not in kinds
    assert (fused(**batch.inputs).logits - before).abs().max() < 1e-12
