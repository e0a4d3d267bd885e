"""Unknown architectures: found where the guess is true, refused where it is not."""

import copy
from dataclasses import replace

import oracles
import pytest
import torch
from conftest import FAMILIES, OTHERS, in_float64
from transformers import AutoConfig, AutoModelForSequenceClassification

from gnorm import UserError, heads, search, surgery
from gnorm.scores import gnorm

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 60, "pad_token_id": 1}


def build(family, **own):
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**SIZES, **own}, initializer_range=0.25)
    config.use_cache = False
    return AutoModelForSequenceClassification.from_config(config).double().eval().requires_grad_(False)


@pytest.mark.parametrize("family", [*(f for f in FAMILIES if f != "albert"), *OTHERS])
def test_finds_what_is_known_of_known_families(family, make_tiny, monkeypatch):
    tiny = make_tiny(family)
    monkeypatch.delitem(heads.LAYOUTS, family)
    found, known = search.find(tiny.model), tiny.heads
    assert found.blocks == known.blocks and found.causal == known.causal
    for name in ("heads", "width", "key_width", "queries", "share", "hidden"):
        assert getattr(found, name) == getattr(known, name)
    found_scores = gnorm.score(tiny.model, found, tiny.batches(2))
    assert torch.equal(found_scores, gnorm.score(tiny.model, known, tiny.batches(2)))


FOUND = {
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32, "init_std": 0.25},
    "mistral": {"num_key_value_heads": 2, "intermediate_size": 64},
    "qwen3": {"num_key_value_heads": 2, "intermediate_size": 64, "head_dim": 16, "prune_by": "query"},
    "roformer": {"intermediate_size": 64},
    "deberta-v2": {"intermediate_size": 64},
}


@pytest.mark.parametrize("family", FOUND)
def test_what_is_found_can_be_pruned(family):
    model = build(family, **FOUND[family])
    in_float64(model)
    found = search.find(model)
    assert found.heads == (2 if family == "mistral" else 4) and len(found.blocks) == 2
    assert found.causal == (family in ("opt", "mistral", "qwen3"))
    ids = torch.randint(2, 60, (3, 11), generator=torch.Generator().manual_seed(1))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    whole = [(0, head) for head in range(found.heads)]
    for slots in ([(1, 0)], [(0, 1), (1, found.heads - 1)], whole):
        zeroed, cut = copy.deepcopy(model), copy.deepcopy(model)
        oracles.zero_heads(zeroed, found, slots)
        surgery.prune(cut, found, slots)
        expected = zeroed(**inputs).logits
        assert (expected - model(**inputs).logits).abs().max() > 1e-6
        assert (cut(**inputs).logits - expected).abs().max() < 1e-12


REFUSED = {
    "gpt_neox": ({"intermediate_size": 64}, "the key block of head 0 .* moves what heads \\[1\\] give, not \\[0\\]"),
    "mpnet": ({"intermediate_size": 64}, "heads cannot be cut out of mpnet.encoder.layer.0.attention.attn"),
    "xlnet": ({"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}, "no module has children that look like"),
    "bart": ({"d_model": 32}, "it has an encoder and a decoder"),
}


@pytest.mark.parametrize("family", REFUSED)
def test_what_does_not_hold_is_refused_with_what_to_supply(family):
    own, reason = REFUSED[family]
    with pytest.raises(UserError, match=f"model type '{family}', .*: {reason}.*; describe it in a HeadMap: .*names"):
        search.find(build(family, **own))


def test_as_many_heads_as_a_head_is_wide():
    model = build("opt", **{**FOUND["opt"], "hidden_size": 16, "word_embed_proj_dim": 16})
    attention = model.model.decoder.layers[0].self_attn
    assert attention.head_dim == attention.num_heads == 4
    assert search.find(model).counts == {"num_heads": 1, "embed_dim": 4}


def test_a_layer_that_runs_several_times_is_refused(make_tiny, monkeypatch):
    tiny = make_tiny("albert")
    monkeypatch.delitem(heads.LAYOUTS, "albert")
    with pytest.raises(UserError, match="dense runs 3 times, not 1"):
        search.find(tiny.model)


def test_a_wrong_number_of_heads_is_noticed(make_tiny):
    """Four heads of width 8 are not eight of width 4: half a head's queries move the whole head."""
    tiny = make_tiny("bert")
    ids = torch.arange(5, 14)[None]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    assert search.check(tiny.model, tiny.heads, inputs).shape == (3, 4)
    with pytest.raises(search.NotFound, match="the query block of head 0 .* moves what heads .0, 1. give, not .0."):
        search.check(tiny.model, replace(tiny.heads, heads=8, width=4, key_width=4), inputs)


def test_a_found_map_is_kept_with_the_model(tmp_path):
    model = build("opt", **FOUND["opt"])
    with pytest.raises(UserError, match="model type 'opt' .known: albert, bert, .*search may find one"):
        heads.head_map(model)
    found = search.find(model)
    heads.keep(model, found)
    model.save_pretrained(tmp_path)
    assert heads.head_map(AutoModelForSequenceClassification.from_pretrained(tmp_path)) == found


def test_the_search_leaves_the_model_as_it_was(make_tiny, monkeypatch):
    tiny = make_tiny("gpt2")
    before = {name: value.clone() for name, value in tiny.model.state_dict().items()}
    monkeypatch.delitem(heads.LAYOUTS, "gpt2")
    search.find(tiny.model)
    assert all(torch.equal(value, before[name]) for name, value in tiny.model.state_dict().items())
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in tiny.model.modules())
