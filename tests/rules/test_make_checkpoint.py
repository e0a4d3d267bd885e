"""Checkpoints: what is taken as it is, what is fine-tuned, and what is refused."""

import copy
import os
from dataclasses import replace

import pandas as pd
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from support import FAMILIES, OTHERS, copy_workflow, make_checkpoint, planned, snakemake
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

from gnorm import families
from gnorm.engine import training
from gnorm.errors import UserError
from gnorm.files import read_json, write_json
from gnorm.models import checkpoints, export, surgery, versions
from gnorm.models.folders import SUMS
from gnorm.models.heads import Block, HeadMap, head_map, keep
from gnorm.resume import State

CLASSES = ["no", "yes"]


@pytest.fixture
def pretrained(make_tiny, tmp_path):
    """A folder with an encoder, without a classification head, and rows for it."""

    def make(family, **options):
        tiny = make_tiny(family, layers=2, **options)
        folder = tmp_path / family
        whole = type(tiny.model)(tiny.model.config)  # the library's own norms
        whole.load_state_dict(tiny.model.float().state_dict())
        getattr(whole, whole.base_model_prefix).save_pretrained(folder)
        tiny.tokenizer.save_pretrained(folder)
        texts = [row["text"] for row in tiny.rows]
        rows = [{"text": text, "pair": None, "label": i % 2} for i, text in enumerate(texts[:32])]
        return folder, tiny.tokenizer, rows

    return make


def entry(folder, **changes):
    return {"path": str(folder), "epochs": 1, "batch": 8, "rate": 1e-12, "dropout": 0.1} | changes


@pytest.mark.parametrize("family", families.names())
def test_it_starts_from_the_pretrained_layers_and_a_new_head(family, pretrained):
    folder, tokenizer, rows = pretrained(family)
    model = training.finetune(entry(folder), tokenizer, rows, CLASSES, 1)
    assert model.config.id2label == {0: "no", 1: "yes"} and not model.training
    before = AutoModel.from_pretrained(folder).state_dict()
    after = getattr(model, model.base_model_prefix).state_dict()
    shared = [name for name in after if "pooler" not in name]
    assert len(shared) > 20 and all(torch.allclose(after[name], before[name], atol=1e-6) for name in shared)
    rates = {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)}
    rates |= {m.attention_dropout for m in model.modules() if isinstance(getattr(m, "attention_dropout", None), float)}
    assert rates == {0.1}


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_what_was_fine_tuned_is_loaded_as_a_classifier_of_the_same_logits(family, pretrained, tmp_path):
    folder, tokenizer, rows = pretrained(family)
    made = training.finetune(entry(folder, rate=1e-3), tokenizer, rows, CLASSES, 1)
    checkpoints.save(tmp_path / "out", made, tokenizer)
    model, again = checkpoints.load(tmp_path / "out", on="cpu")
    inputs = again([row["text"] for row in rows[:3]], padding=True, padding_side="right", return_tensors="pt")
    assert inputs["attention_mask"].min() == 0
    assert torch.allclose(model(**inputs).logits, made(**inputs).logits, atol=1e-5)


def test_a_decoder_that_never_had_a_padding_token_is_given_one(pretrained, tmp_path):
    """As GPT-2 is published; batches are padded on the right, whatever side its tokenizer prefers."""
    folder, _, rows = pretrained("gpt2", writes=True)
    for name in {"tokenizer_config.json", "special_tokens_map.json", "config.json"} & set(os.listdir(folder)):
        said = read_json(folder / name)
        said.pop("pad_token", None), said.pop("pad_token_id", None)
        write_json(folder / name, said)
    models = []
    for side in ("right", "left"):
        tokenizer = AutoTokenizer.from_pretrained(folder, padding_side=side)
        assert tokenizer.pad_token is None
        models.append(training.finetune(entry(folder, rate=1e-3), tokenizer, rows, CLASSES, 1))
        assert tokenizer.pad_token_id == models[-1].config.pad_token_id == tokenizer.eos_token_id
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)


def test_it_learns_and_is_repeatable(pretrained):
    folder, tokenizer, rows = pretrained("bert")
    for i, row in enumerate(rows):
        row["text"] = ("rise " if i % 2 else "fall ") + row["text"]
    learnt = [training.finetune(entry(folder, epochs=8, rate=3e-3), tokenizer, rows, CLASSES, 1) for _ in range(2)]
    for one, other in zip(learnt[0].parameters(), learnt[1].parameters(), strict=True):
        assert torch.equal(one, other)
    inputs = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
    with torch.inference_mode():
        predicted = learnt[0](**inputs).logits.argmax(-1).tolist()
    assert sum(p == row["label"] for p, row in zip(predicted, rows, strict=True)) >= 30


def test_a_head_for_other_classes_is_replaced_and_what_is_no_encoder_refused(pretrained, make_tiny, tmp_path):
    folder, tokenizer, rows = pretrained("bert")
    first = training.finetune(entry(folder), tokenizer, rows, ["a", "b", "c"], 1)
    checkpoints.save(tmp_path / "three", first, tokenizer)
    model = training.finetune(entry(tmp_path / "three"), tokenizer, rows, CLASSES, 1)
    assert model.config.num_labels == 2 and model.classifier.weight.shape[0] == 2
    with pytest.raises(UserError, match="config.json is missing"):
        training.finetune(entry(tmp_path / "none"), tokenizer, rows, CLASSES, 1)


@pytest.mark.parametrize("family", ["bert", "albert", "distilbert", "gpt2", "llama"])
@pytest.mark.parametrize("part", ["layers", "words"])
def test_what_is_not_pretrained_is_not_fine_tuned(family, part, pretrained):
    folder, tokenizer, rows = pretrained(family)
    weights = load_file(folder / "model.safetensors")
    words = [name for name in weights if name.endswith(("word_embeddings.weight", "wte.weight", "embed_tokens.weight"))]
    lost = words if part == "words" else [name for name in weights if "attn" in name or "attention" in name]
    assert lost
    kept = {name: value for name, value in weights.items() if name not in lost}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="no weights of the right shape for .*: it is not a pretrained encoder"):
        training.finetune(entry(folder), tokenizer, rows, CLASSES, 1)


def test_the_script_saves_it_with_its_heads(pretrained, tmp_path):
    folder, tokenizer, rows = pretrained("bert")
    data = tmp_path / "data"
    data.mkdir()
    pd.DataFrame(rows).to_parquet(data / "rows.parquet")
    write_json(data / "splits.json", {"classes": CLASSES, "train": list(range(16)), "evaluation": [16]})
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    made = entry(folder)
    make_checkpoint(
        data, tmp_path / "tokenizer", made, tmp_path / "out", tmp_path / "heads.json", State(tmp_path / "state.pt", {})
    )
    model, _ = checkpoints.load(tmp_path / "out", on="cpu")
    assert model.config.num_labels == 2 and '"total": 8' in (tmp_path / "heads.json").read_text()


@pytest.mark.parametrize(
    "family, auto, missing",
    [
        ("bert", AutoModel, "classifier.weight and 1 more (saved as BertModel)"),
        ("bert", AutoModelForMaskedLM, "bert.pooler.dense.weight and 3 more (saved as BertForMaskedLM)"),
        ("roberta", AutoModelForMaskedLM, "classifier.dense.weight and 3 more (saved as RobertaForMaskedLM)"),
        ("albert", AutoModel, "classifier.weight and 1 more (saved as AlbertModel)"),
        ("distilbert", AutoModel, "pre_classifier.weight and 3 more (saved as DistilBertModel)"),
        ("gpt2", AutoModel, "score.weight (saved as GPT2Model)"),
    ],
)
def test_a_checkpoint_without_its_head_is_not_given_a_random_one(family, auto, missing, make_tiny, tmp_path):
    tiny = make_tiny(family, layers=1)
    checkpoints.save(tmp_path, auto.from_config(tiny.model.config), tiny.tokenizer)
    with pytest.raises(UserError) as caught:
        checkpoints.load(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} has no weights of the right shape for {missing}: "
        "take a checkpoint fine-tuned for classification, or train them with `source: finetune`"
    )


def test_a_language_model_without_its_head_is_refused_unless_it_is_tied(make_tiny, tmp_path):
    tiny = make_tiny("llama", writes=True, layers=1)
    for tied in (True, False):
        config = tiny.model.config
        config.tie_word_embeddings = tied
        checkpoints.save(tmp_path / f"{tied}", AutoModelForCausalLM.from_config(config), tiny.tokenizer)
        path = tmp_path / f"{tied}" / "model.safetensors"
        weights = load_file(path)
        assert ("lm_head.weight" in weights) != tied
        save_file({n: v for n, v in weights.items() if n != "lm_head.weight"}, path, {"format": "pt"})
        (path.parent / SUMS).unlink()
    checkpoints.load(tmp_path / "True")
    with pytest.raises(
        UserError, match="no weights of the right shape for lm_head.weight .*: take a checkpoint that has them"
    ):
        checkpoints.load(tmp_path / "False")


def test_a_buffer_that_older_versions_saved_or_left_out_is_no_missing_weight(make_tiny, tmp_path):
    tiny = make_tiny("bert", layers=1)
    checkpoints.save(tmp_path, tiny.model.float(), tiny.tokenizer)
    weights = load_file(tmp_path / "model.safetensors")
    weights["bert.embeddings.position_ids"] = torch.arange(52)[None]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    (tmp_path / SUMS).unlink()
    model, _ = checkpoints.load(tmp_path, on="cpu")
    assert torch.equal(model.classifier.weight, tiny.model.classifier.weight)


def test_weights_of_another_shape_are_named(make_tiny, tmp_path):
    """Neither taken as they are, nor fine-tuned from where they belong to a layer."""
    tiny = make_tiny("bert", layers=1)
    checkpoints.save(tmp_path, tiny.model.float(), tiny.tokenizer)
    config = read_json(tmp_path / "config.json")
    config["id2label"] = {str(i): f"c{i}" for i in range(7)}
    config["label2id"] = {f"c{i}": i for i in range(7)}
    write_json(tmp_path / "config.json", config)
    (tmp_path / SUMS).unlink()
    with pytest.raises(UserError, match=r"the right shape for classifier.weight and 1 more .* take a") as caught:
        checkpoints.load(tmp_path)
    assert "\n" not in str(caught.value)
    config["intermediate_size"] = 48
    write_json(tmp_path / "config.json", config)
    with pytest.raises(UserError, match="intermediate.dense.weight and 2 more: it is not a pretrained encoder"):
        training.finetune(entry(tmp_path), tiny.tokenizer, tiny.rows, CLASSES, 1)


def test_a_family_that_is_searched_for_can_be_fine_tuned(make_tiny, tmp_path):
    tiny = make_tiny("roberta")
    data, folder = tmp_path / "data", tmp_path / "opt"
    data.mkdir()
    rows = [{"text": row["text"], "pair": None, "label": i % 2} for i, row in enumerate(tiny.rows[:24])]
    pd.DataFrame(rows).to_parquet(data / "rows.parquet")
    write_json(data / "splits.json", {"classes": CLASSES, "train": list(range(16)), "evaluation": [16]})
    tiny_opt(len(tiny.tokenizer)).model.save_pretrained(folder)
    tiny.tokenizer.save_pretrained(folder)
    made = entry(folder)
    state = State(tmp_path / "state.pt", {})
    make_checkpoint(data, folder, made, tmp_path / "out", tmp_path / "heads.json", state, attention="ae")
    model, _ = checkpoints.load(tmp_path / "out", on="cpu")
    assert head_map(model).total == 8 and model.config.dropout == model.config.attention_dropout == 0.1


@pytest.fixture
def taken(make_tiny, tmp_path):
    """A model in a folder of its own, made into a checkpoint by the script; what it says in its log."""
    tiny = make_tiny("roberta")
    data = tmp_path / "data"
    data.mkdir()
    pd.DataFrame(tiny.rows[:8]).to_parquet(data / "rows.parquet")
    write_json(data / "splits.json", {"classes": CLASSES, "train": [], "evaluation": [0, 1]})
    tiny.tokenizer.save_pretrained(tmp_path / "tokenizer")

    def make(model, wanted=None, **entry):
        folder = tmp_path / "own"
        model.save_pretrained(folder)
        tiny.tokenizer.save_pretrained(folder)
        entry |= {"source": "local", "path": str(folder)}
        outputs = tmp_path / "out", tmp_path / "heads.json"
        make_checkpoint(data, tmp_path / "tokenizer", entry, *outputs, **(wanted or {}))
        return checkpoints.load(tmp_path / "out", on="cpu")[0]

    make.words = len(tiny.tokenizer)
    return make


def tiny_ctrl(words):
    """A model that the search does not find, whose attention weights come third."""
    config = AutoConfig.for_model("ctrl", vocab_size=words, n_embd=32, dff=64, n_layer=2, n_head=4, n_positions=52)
    config.pad_token_id, config.initializer_range = 1, 0.25
    names = [f"transformer.h.{i}.multi_head_attention" for i in range(2)]
    blocks = tuple(Block(n, f"{n}.Wq", f"{n}.Wk", f"{n}.Wv", f"{n}.dense", (i,)) for i, n in enumerate(names))
    model = AutoModelForSequenceClassification.from_config(config).eval()
    return model, HeadMap(blocks, heads=4, width=8, hidden=32)


def tiny_opt(words, **options):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64}
    config = AutoConfig.for_model(
        "opt", vocab_size=words, word_embed_proj_dim=32, max_position_embeddings=52, pad_token_id=1, **sizes, **options
    )
    return AutoModelForSequenceClassification.from_config(config).eval()


def test_a_map_that_comes_with_the_model_is_checked_and_used(taken):
    model, by_hand = tiny_ctrl(taken.words)
    with pytest.raises(UserError, match="model type 'ctrl', and a search found none: .*; heads.keep.model, heads. and"):
        taken(model)
    keep(model, by_hand)
    found = head_map(taken(model))
    assert found.counts == {"num_heads": 1, "d_model_size": 8} and found.causal
    assert found.blocks == by_hand.blocks
    keep(model, replace(by_hand, heads=8, width=4, key_width=4))
    with pytest.raises(UserError, match="^head_map in config.json does not hold: the query block of head 0"):
        taken(model)
    del model.config.head_map["heads"]
    with pytest.raises(UserError, match="^head_map in config.json is no HeadMap .TypeError: .*'heads'.*heads.keep$"):
        taken(model)


def test_a_map_that_comes_with_a_model_of_a_known_family_is_checked_too(taken, make_tiny):
    model = make_tiny("bert").model.float()
    config = copy.deepcopy(model.config)
    config.vocab_size, config.num_labels = taken.words, 2
    model = type(model)(config).eval()
    known = head_map(model)
    keep(model, known)
    assert head_map(taken(model)).blocks == known.blocks
    keep(model, replace(known, heads=8, width=4, key_width=4))
    with pytest.raises(UserError, match="head_map in config.json does not hold"):
        taken(model)


@pytest.mark.parametrize(
    "wanted,said",
    [
        ({"solution": 9}, "^solution: 9 heads are more than the 8 that the model has"),
        ({"solution": 3, "stop": {"fraction": 0.25}}, "^solution: 3 heads are more than `stop: fraction: 0.25`"),
        ({"stop": {"fraction": 0.1}}, "stop: fraction: 0.1 ends before the first head is pruned"),
        ({"levels": 10}, "^random.levels: 8 prunable heads allow at most 9, got 10"),
        (
            {"generation": {"prompts": 2, "prompt_tokens": 52}},
            "52 positions and none left to write in .* to 51 or less",
        ),
        ({"generation": {"prompts": 2, "prompt_tokens": 51}}, "no evaluation row is longer than the 51 tokens of a"),
    ],
)
@pytest.mark.fault(
    "settings ask of a model whose shape planning does not know what it cannot do", "refused before its checkpoint"
)
def test_what_a_model_of_unknown_shape_cannot_do_is_said_before_any_pruning(taken, tmp_path, wanted, said):
    with pytest.raises(UserError, match=said) as caught:
        taken(tiny_opt(taken.words), wanted)
    assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


def test_criteria_that_need_attention_weights_are_refused_where_a_model_gives_none(taken, no_attention):
    model, by_hand = tiny_ctrl(taken.words)
    keep(model, by_hand)
    named = "strategies.ae, taylor of compare"
    with pytest.raises(
        UserError, match=f"gives no attention weights .* that need them: leave out {named}, or"
    ) as caught:
        taken(model, {"attention": named})
    assert "\n" not in str(caught.value)
    taken(tiny_opt(taken.words), {"attention": named})  # gives them


def test_the_tokenizer_is_kept_as_it_came(tmp_path):
    """One without a padding token gets one where rows are batched; saved, that would be special and split words."""
    words = Tokenizer(WordLevel({"a": 0, "cat": 1, "sat": 2, "[UNK]": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    config = AutoConfig.for_model("gpt2", vocab_size=4, n_embd=8, n_layer=1, n_head=2, n_positions=8)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "own")
    tokenizer.save_pretrained(tmp_path / "own")
    write_json(tmp_path / "splits.json", {"classes": []})
    outputs = tmp_path / "out", tmp_path / "heads.json"
    entry = {"source": "local", "path": str(tmp_path / "own")}
    make_checkpoint(tmp_path, tmp_path / "own", entry, *outputs, task="language_model")
    _, kept = checkpoints.load(tmp_path / "out", on="cpu")
    assert kept("a cat sat")["input_ids"] == [0, 1, 2] and kept.decode([0, 1], skip_special_tokens=True) == "a cat"


def test_a_model_without_attention_weights_runs_to_the_report(make_tiny, tmp_path):
    """With what its refusal says to leave out left out."""
    tree, tiny = copy_workflow(tmp_path / "tree"), make_tiny("roberta")
    model, by_hand = tiny_ctrl(len(tiny.tokenizer))
    keep(model, by_hand)
    model.config.id2label = {0: "no", 1: "yes"}
    model.save_pretrained(tree / "own")
    tiny.tokenizer.save_pretrained(tree / "own")
    rows = pd.DataFrame({"text": [row["text"] for row in tiny.rows], "said": ["no", "yes"] * (len(tiny.rows) // 2)})
    rows.to_csv(tree / "own.csv", index=False)
    columns = {"text": "text", "label": "said", "classes": ["no", "yes"], "distinct": False}
    entry = {
        "dataset": {"source": "file", "path": "own.csv", **columns},
        "checkpoint": {"source": "local", "path": "own"},
        "rows": {"calibration": 8, "evaluation": 20},
        "random": {"levels": 3},
    }
    (tree / "suites/own.yaml").write_text(yaml.safe_dump({"runs_per_job": 2, "models": {"CTRL": entry}}))
    config = yaml.safe_load((tree / "config.yaml").read_text()) | {"suite": "own", "runs": 2}
    config["strategies"]["random"] |= {"trials": 2}
    (tree / "config.yaml").write_text(yaml.safe_dump(config))
    if not versions.FIVE:  # there CTRL gives its weights
        refused = snakemake(tree, "checkpoints")
        assert refused.returncode
        assert "leave out strategies.ae, strategies.inverse_ae, taylor of compare, entropy of compare" in refused.stderr
    for name in ("ae", "inverse_ae"):
        del config["strategies"][name]
    config["compare"] = ["gnorm", "fisher", "magnitude"]
    (tree / "config.yaml").write_text(yaml.safe_dump(config))
    made = snakemake(tree)
    assert made.returncode == 0, made.stderr[-3000:]
    verdict = pd.read_csv(tree / "results/own/verdict.csv").set_index("item")["this run"]
    assert verdict["Epsilon keeps the order of entropies"] == "add a strategy with `score: entropy` to config.yaml"
    assert (tree / "results/own/report.html").exists() and not (tree / "results/own/CTRL/entropy").exists()
    assert not (tree / "results/own/tables/entropy.csv").exists() and planned(tree) == {}


def test_a_pruned_model_of_a_searched_family_is_refused_for_being_pruned(taken, tmp_path):
    model = taken(tiny_opt(taken.words))
    heads = head_map(model)
    surgery.prune(model, heads, [(0, 1)])
    for folder in (model, export.with_zeros(model)):
        with pytest.raises(
            UserError, match="own has pruned heads or neurons already; start from an unpruned checkpoint"
        ):
            taken(folder)


def test_prune_by_says_where_it_has_no_effect_or_contradicts_the_map(taken, caplog):
    caplog.set_level("WARNING", "gnorm")
    taken(tiny_opt(taken.words), prune_by="query")
    assert [record.getMessage() for record in caplog.records] == [
        "prune_by: query has no effect: every query head has a K and V of its own"
    ]
    config = AutoConfig.for_model(
        "mistral",
        vocab_size=taken.words,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=52,
        pad_token_id=1,
    )
    model = AutoModelForSequenceClassification.from_config(config).eval()
    caplog.clear()
    by_query = taken(model, prune_by="query")
    assert head_map(by_query).share == 2 and not caplog.records
    assert head_map(taken(by_query, prune_by="query")).share == 2
    with pytest.raises(UserError, match="^prune_by: group of the suite is not the query of head_map in config.json"):
        taken(by_query, prune_by="group")


@pytest.mark.fault("the classes are the model's in another order", "refused; both orders are named")
def test_classes_in_another_order_than_the_models_are_refused(make_tiny, record_property):
    model = make_tiny("bert").model
    model.config.id2label = {0: "Unhappy", 1: "Mixed", 2: "Happy"}
    wrong = (
        ["Happy", "Mixed", "Unhappy"],
        ["happy", "mixed", "unhappy"],
        ["Mixed", "Unhappy", "Happy"],
        ["Happy", "neither", "x"],  # whatever the other two are
    )
    for classes in wrong:
        with pytest.raises(
            UserError, match="the model's classes are Unhappy, Mixed, Happy .*put `classes:` in the mod"
        ):
            checkpoints.check_classes(model, classes)
    for classes in (["Unhappy", "Mixed", "Happy"], ["unhappy", "MIXED", "happy"], ["0", "1", "2"], ["x", "Mixed", "y"]):
        checkpoints.check_classes(model, classes)
    model.config.id2label = {0: "a", 1: "A", 2: "B"}
    checkpoints.check_classes(model, ["a", "A", "b"])
    with pytest.raises(UserError):
        checkpoints.check_classes(model, ["A", "a", "b"])
    unnamed = (["1", "0", "2"], ["2", "1", "0"], ["1", "2", "0"])
    model.config.id2label = {i: f"LABEL_{i}" for i in range(3)}
    for classes in unnamed:
        with pytest.raises(UserError, match="the model's classes are LABEL_0, LABEL_1, LABEL_2 .*in the model's order"):
            checkpoints.check_classes(model, classes)
    for classes in (["0", "1", "2"], ["1", "2", "3"], ["no", "some", "yes"], ["LABEL_0", "LABEL_1", "LABEL_2"]):
        checkpoints.check_classes(model, classes)
    model.config.id2label = {0: "contradiction", 1: "neutral", 2: "entailment"}
    checkpoints.check_classes(model, ["2", "1", "0"])  # the numbers are those of the dataset, which may be others
    record_property("tried", len(wrong) + len(unnamed) + 1)


@pytest.mark.fault("a checkpoint is taken whose classes the suite lists in another order", "the job refuses it")
def test_the_job_refuses_classes_in_another_order(make_tiny, tmp_path):
    tiny = make_tiny("bert")
    tiny.model.config.id2label = {0: "negative", 1: "neutral", 2: "positive"}
    tiny.model.float().save_pretrained(tmp_path / "model")
    tiny.tokenizer.save_pretrained(tmp_path / "model")
    write_json(tmp_path / "splits.json", {"classes": ["positive", "neutral", "negative"]})
    entry = {"source": "local", "path": str(tmp_path / "model")}
    with pytest.raises(UserError, match="lists positive, neutral, negative: put `classes:` in the model's order"):
        make_checkpoint(tmp_path, tmp_path / "model", entry, tmp_path / "out", tmp_path / "heads.json")
    assert not (tmp_path / "out").exists()
