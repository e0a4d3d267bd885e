"""Unknown architectures: found where the guess is true, refused where it is not."""

import copy
from dataclasses import replace

import oracles
import pytest
import torch
from support import FAMILIES, OTHERS, in_float64
from transformers import AutoConfig, AutoModelForImageClassification, AutoModelForSequenceClassification

from gnorm import families, scores
from gnorm.engine import batches
from gnorm.errors import UserError
from gnorm.models import export, heads, search, surgery, versions
from gnorm.models.heads import Block, HeadMap
from gnorm.scores import entropy, gnorm

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 60, "pad_token_id": 1}


def build(family, **own):
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**SIZES, **own}, initializer_range=0.25)
    config.use_cache = False
    return AutoModelForSequenceClassification.from_config(config).double().eval().requires_grad_(False)


@pytest.mark.parametrize("family", [*(f for f in FAMILIES if f != "albert"), *OTHERS])
def test_finds_what_is_known_of_known_families(family, make_tiny, monkeypatch):
    tiny = make_tiny(family)
    monkeypatch.setattr(families, "find", lambda _: None)
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
    "mpnet": (
        {"intermediate_size": 64},
        "heads cannot be cut out of mpnet.encoder.layer.0.attention.attn with the same outputs "
        "\\(RuntimeError: The size of tensor a \\(3\\) must match the size of tensor b \\(4\\)",
    ),
    "xlnet": ({"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}, "no module has children that look like"),
    "bart": ({"d_model": 32}, "it has an encoder and a decoder"),
}


@pytest.mark.parametrize("family", REFUSED)
def test_what_does_not_hold_is_refused_with_what_to_supply(family):
    own, reason = REFUSED[family]
    with pytest.raises(
        UserError, match=f"model type '{family}', .*: {reason}.*; describe it in a HeadMap: .*names"
    ) as e:
        search.find(build(family, **own))
    assert "heads.keep(model, heads) and model.save_pretrained(folder)" in str(e.value) and "\n" not in str(e.value)


@pytest.mark.parametrize("family", ["opt", "mistral"])
def test_a_model_that_keeps_keys_and_values_is_searched_without(family):
    model = build(family, **FOUND[family])
    expected = search.find(model)
    model.config.use_cache = True
    assert search.find(model) == search.confirm(model, expected) == expected
    assert search.gives_attention(model, expected) and model.config.use_cache


USED = {
    **FOUND,
    "falcon": {"bias": False},
    "gpt_bigcode": {"n_inner": 64, "n_positions": 64},
}
FEW = {"shapley": {"permutations": 2}, "hard_concrete": {"steps": 1}, "attribution": {"steps": 1}}
READ_ATTENTION = ("entropy", "taylor", "attribution")


@pytest.mark.parametrize("family", USED)
def test_what_is_found_is_scored_pruned_saved_and_loaded(family, make_tiny, tmp_path):
    """As a library gives the model: frozen by nobody, and set to keep keys and values."""
    tokenizer = make_tiny("roberta").tokenizer
    model = build(family, **{**USED[family], "vocab_size": len(tokenizer)}).float().requires_grad_()
    model.config.use_cache = True
    found = search.find(model)
    rows = [{"text": text, "pair": None, "label": i} for i, text in enumerate(("profits rose", "sales fell again"))]
    made = batches.make(tokenizer, rows, 200)
    gives = search.gives_attention(model, found)
    assert gives == (versions.FIVE or family not in ("falcon", "gpt_bigcode"))
    for name in (name for name in scores.names() if name != "hybrid"):
        if name in READ_ATTENTION and not gives:
            with pytest.raises(UserError, match="gives no attention"):
                scores.load(name).score(model, found, made)
        else:
            assert scores.load(name).score(model, found, made, **FEW.get(name, {})).isfinite().all()
    heads.keep(model, found)
    surgery.prune(model, found, [(1, found.heads - 1)])
    assert gnorm.score(model, found, made)[0].all() and model.config.use_cache
    export.save(tmp_path / "out", model, tokenizer)
    loaded, again, _ = export.load(tmp_path / "out", on="cpu")
    assert not again.kept(loaded)[1, -1] and again.left(loaded) == 2 * found.heads - 1
    model.config.use_cache, (batch,) = False, made
    with torch.no_grad():
        assert torch.allclose(loaded(**batch.inputs).logits, model(**batch.inputs).logits, atol=1e-5)


def test_a_model_that_cannot_be_scored_is_refused():
    """No gradient comes back through its first layer; all else holds."""
    model = build("roformer", **FOUND["roformer"])
    search.find(model)
    first = model.get_submodule("roformer.encoder.layer.0.attention.self")
    first.register_forward_hook(lambda _m, _a, output: (output[0].detach(), *output[1:]))
    with pytest.raises(
        UserError, match="can be cut out, but not scored and loaded again .RuntimeError: .*differentiated"
    ):
        search.find(model)


def test_as_many_heads_as_a_head_is_wide():
    model = build("opt", **{**FOUND["opt"], "hidden_size": 16, "word_embed_proj_dim": 16})
    attention = model.model.decoder.layers[0].self_attn
    assert attention.head_dim == attention.num_heads == 4
    assert search.find(model).counts == {"num_heads": 1, "embed_dim": 4}


def test_a_layer_that_runs_several_times_is_refused(make_tiny, monkeypatch):
    tiny = make_tiny("albert")
    monkeypatch.setattr(families, "find", lambda _: None)
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
    with pytest.raises(UserError, match="model type 'opt' .known: albert, bert, .*search.find"):
        heads.head_map(model)
    found = search.find(model)
    heads.keep(model, found)
    model.save_pretrained(tmp_path)
    assert heads.head_map(AutoModelForSequenceClassification.from_pretrained(tmp_path)) == found


def test_the_search_leaves_the_model_as_it_was(make_tiny, monkeypatch):
    tiny = make_tiny("gpt2")
    before = {name: value.clone() for name, value in tiny.model.state_dict().items()}
    monkeypatch.setattr(families, "find", lambda _: None)
    search.find(tiny.model)
    assert all(torch.equal(value, before[name]) for name, value in tiny.model.state_dict().items())
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in tiny.model.modules())


CTRL = {"n_embd": 32, "dff": 64, "n_layer": 2, "n_head": 4, "n_positions": 52}  # its names are not guessed


def described(**changes):
    """CTRL's heads, as somebody who has read its code describes them."""
    names = [f"transformer.h.{i}.multi_head_attention" for i in range(2)]
    blocks = tuple(Block(n, f"{n}.Wq", f"{n}.Wk", f"{n}.Wv", f"{n}.dense", (i,)) for i, n in enumerate(names))
    return HeadMap(**{"blocks": blocks, "heads": 4, "width": 8, "hidden": 32, **changes})


def test_a_map_by_hand_is_confirmed_and_completed():
    model = build("ctrl", **CTRL)
    with pytest.raises(UserError, match="no module has children that look like"):
        search.find(model)
    found = search.confirm(model, described())
    assert found.counts == {"num_heads": 1, "d_model_size": 8} and found.causal
    assert replace(found, counts={}, causal=False) == described()


def wrong(part, name):
    first, *others = described().blocks
    return (replace(first, **{part: name}), *others)


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"blocks": wrong("query", "transformer.h.0.q")}, "it has no module transformer.h.0.q"),
        ({"blocks": wrong("query", "transformer.h.0.layernorm1")}, "is a LayerNorm, not a linear layer"),
        ({"blocks": wrong("query", "transformer.h.1.multi_head_attention.Wq")}, "is given something else than"),
        ({"heads": 8, "width": 4, "key_width": 4}, "the query block of head 0 .* moves what heads .0, 1. give"),
        ({"hidden": 64}, "gives 32 columns, not the 64 of `hidden`"),
        ({"layer_names": ("transformer.h.0", "transformer.layers.1")}, "no module transformer.layers.1, which `layer_"),
        (
            {"layer_names": tuple(f"transformer.h.{i}.multi_head_attention" for i in range(2))},
            "no layers that return .* .ValueError",
        ),
    ],
)
def test_a_map_by_hand_that_is_wrong_is_refused(changes, reason):
    with pytest.raises(UserError, match=f"^head_map in config.json does not hold: .*{reason}") as caught:
        search.confirm(build("ctrl", **CTRL), described(**changes))
    assert "\n" not in str(caught.value)


def test_pairs_of_heads_are_refused_where_the_model_splits_columns_into_a_fixed_number():
    model = build("xlm", emb_dim=32, n_layers=2, n_heads=4, init_std=0.25, embed_init_std=0.25)
    names = [f"transformer.attentions.{i}" for i in range(2)]
    own = [(n, f"{n}.q_lin", f"{n}.k_lin", f"{n}.v_lin", f"{n}.out_lin", (i,)) for i, n in enumerate(names)]
    single = HeadMap(tuple(Block(*parts) for parts in own), heads=4, width=8, hidden=32)
    assert search.confirm(model, single).counts == {"n_heads": 1, "dim": 8}
    with pytest.raises(UserError, match="heads cannot be cut out of transformer.attentions.0 with the same outputs"):
        search.confirm(model, replace(single, heads=2, width=16, key_width=16))


def test_layer_names_must_be_layers():
    model = build("opt", **FOUND["opt"])
    found = search.find(model)
    layers = tuple(f"model.decoder.layers.{i}" for i in range(2))
    assert search.confirm(model, replace(found, layer_names=layers)).layer_names == layers
    for names, reason in (
        (layers[::-1], "in their order: .*layers.1 does not hold .*layers.0"),
        ([f"{n}.self_attn" for n in layers], "return"),
    ):
        with pytest.raises(UserError, match=f"`layer_names` are no layers.*{reason}"):
            search.confirm(model, replace(found, layer_names=tuple(names)))


@pytest.mark.parametrize("groups", [1, 2])
def test_layers_that_share_their_weights_pass_the_check(make_tiny, groups):
    tiny = make_tiny("albert")
    config = copy.deepcopy(tiny.model.config)
    config.num_hidden_groups = groups
    model = AutoModelForSequenceClassification.from_config(config).double().eval().requires_grad_(False)
    known = heads.head_map(model)
    assert [len(block.layers) for block in known.blocks] == [[3], [2, 1]][groups - 1]
    found = search.check(model, known, search._row(model))
    assert found.shape == known.shape and not found.causal
    with pytest.raises(search.NotFound, match="the query block of head 0 .* moves what heads .0, 1. give, not .0."):
        search.check(model, replace(known, heads=8, width=4, key_width=4), search._row(model))


@pytest.mark.parametrize("family", [*FOUND, "ctrl"])
def test_whether_attention_weights_are_given_is_known_beforehand(family, no_attention):
    """CTRL returns them third here, after keys and values."""
    model = build(family, **(CTRL if family == "ctrl" else FOUND[family]))
    found = search.confirm(model, described()) if family == "ctrl" else search.find(model)
    assert search.gives_attention(model, found) == (family != "ctrl")
    assert (
        model.config._attn_implementation
        == build(family, **(FOUND | {"ctrl": CTRL})[family]).config._attn_implementation
    )


@pytest.mark.parametrize("family", ["opt", "roformer"])
def test_a_layer_without_heads_still_has_a_matrix_where_others_are_asked_for_theirs(family, make_tiny):
    """RoFormer's attention returns one thing, and two when it is asked for attention."""
    tiny = make_tiny("roberta" if family == "opt" else "bert")
    model = build(family, **FOUND[family], vocab_size=len(tiny.tokenizer))
    found = search.find(model)
    surgery.prune(model, found, [(0, head) for head in range(4)])
    tiny.tokenizer.model_input_names = ["input_ids", "attention_mask"]
    values = entropy.score(model, found, tiny.batches(3))
    assert (values[0] == 0).all() and (values[1] > 0).all()


@pytest.mark.fault("a caller gives a model of an unknown family, or one that reads no text", "one line says what to do")
def test_an_unknown_family_and_a_model_of_images(record_property):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = AutoConfig.for_model("vit", image_size=8, patch_size=4, **sizes)
    model = AutoModelForImageClassification.from_config(config)
    with pytest.raises(
        UserError, match=r"no head map for model type 'vit' .*: gnorm.models.search.find\(model\) looks"
    ):
        heads.head_map(model)
    with pytest.raises(UserError, match="a model of type 'vit' reads no text .*: only models that read tokens can be"):
        search.find(model)
    record_property("tried", 2)
