"""Checkpoints: what is taken as it is, what is fine-tuned, and what is refused."""

import make_checkpoint
import pandas as pd
import pytest
import torch
from conftest import FAMILIES, OTHERS
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
)

from gnorm import UserError, checkpoints
from gnorm.files import read_json, write_json
from gnorm.heads import LAYOUTS

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
    return {"from": {"path": str(folder)}, "epochs": 1, "batch": 8, "rate": 1e-12, "dropout": 0.1} | changes


@pytest.mark.parametrize("family", LAYOUTS)
def test_it_starts_from_the_pretrained_layers_and_a_new_head(family, pretrained):
    folder, tokenizer, rows = pretrained(family)
    model = checkpoints.finetune(entry(folder), tokenizer, rows, CLASSES, 1)
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
    made = checkpoints.finetune(entry(folder, rate=1e-3), tokenizer, rows, CLASSES, 1)
    checkpoints.save(tmp_path / "out", made, tokenizer)
    model, again = checkpoints.load(tmp_path / "out", on="cpu")
    inputs = again([row["text"] for row in rows[:3]], padding=True, padding_side="right", return_tensors="pt")
    assert inputs["attention_mask"].min() == 0
    assert torch.allclose(model(**inputs).logits, made(**inputs).logits, atol=1e-5)


def test_a_decoder_that_never_had_a_padding_token_is_given_one(pretrained, tmp_path):
    """As GPT-2 is published; batches are padded on the right, whatever side its tokenizer prefers."""
    folder, _, rows = pretrained("gpt2", writes=True)
    for name in ("tokenizer_config.json", "special_tokens_map.json", "config.json"):
        said = read_json(folder / name)
        said.pop("pad_token", None), said.pop("pad_token_id", None)
        write_json(folder / name, said)
    models = []
    for side in ("right", "left"):
        tokenizer = AutoTokenizer.from_pretrained(folder, padding_side=side)
        assert tokenizer.pad_token is None
        models.append(checkpoints.finetune(entry(folder, rate=1e-3), tokenizer, rows, CLASSES, 1))
        assert tokenizer.pad_token_id == models[-1].config.pad_token_id == tokenizer.eos_token_id
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)


def test_it_learns_and_is_repeatable(pretrained):
    folder, tokenizer, rows = pretrained("bert")
    for i, row in enumerate(rows):
        row["text"] = ("rise " if i % 2 else "fall ") + row["text"]
    learnt = [checkpoints.finetune(entry(folder, epochs=8, rate=3e-3), tokenizer, rows, CLASSES, 1) for _ in range(2)]
    for one, other in zip(learnt[0].parameters(), learnt[1].parameters(), strict=True):
        assert torch.equal(one, other)
    inputs = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
    with torch.inference_mode():
        predicted = learnt[0](**inputs).logits.argmax(-1).tolist()
    assert sum(p == row["label"] for p, row in zip(predicted, rows, strict=True)) >= 30


def test_a_head_for_other_classes_is_replaced_and_what_is_no_encoder_refused(pretrained, make_tiny, tmp_path):
    folder, tokenizer, rows = pretrained("bert")
    first = checkpoints.finetune(entry(folder), tokenizer, rows, ["a", "b", "c"], 1)
    checkpoints.save(tmp_path / "three", first, tokenizer)
    model = checkpoints.finetune(entry(tmp_path / "three"), tokenizer, rows, CLASSES, 1)
    assert model.config.num_labels == 2 and model.classifier.weight.shape[0] == 2
    with pytest.raises(UserError, match="config.json is missing"):
        checkpoints.finetune(entry(tmp_path / "none"), tokenizer, rows, CLASSES, 1)


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
        checkpoints.finetune(entry(folder), tokenizer, rows, CLASSES, 1)


def test_the_script_saves_it_with_its_heads(pretrained, tmp_path):
    folder, tokenizer, rows = pretrained("bert")
    data = tmp_path / "data"
    data.mkdir()
    pd.DataFrame(rows).to_parquet(data / "rows.parquet")
    write_json(data / "splits.json", {"classes": CLASSES, "train": list(range(16)), "evaluation": [16]})
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    made = entry(folder) | {"source": "finetune"}
    make_checkpoint.main(
        str(data), tmp_path / "tokenizer", made, 1, tmp_path / "state.pt", tmp_path / "out", tmp_path / "heads.json"
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
    with pytest.raises(UserError, match=r"the right shape for classifier.weight and 1 more .* take a") as caught:
        checkpoints.load(tmp_path)
    assert "\n" not in str(caught.value)
    config["intermediate_size"] = 48
    write_json(tmp_path / "config.json", config)
    with pytest.raises(UserError, match="intermediate.dense.weight and 2 more: it is not a pretrained encoder"):
        checkpoints.finetune(entry(tmp_path), tiny.tokenizer, tiny.rows, CLASSES, 1)
