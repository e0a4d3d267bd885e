"""Fine-tuning a pretrained encoder."""

import make_checkpoint
import pandas as pd
import pytest
import torch
from conftest import FAMILIES
from transformers import AutoModel

from gnorm import UserError, checkpoints
from gnorm.files import write_json

CLASSES = ["no", "yes"]


@pytest.fixture
def pretrained(make_tiny, tmp_path):
    """A folder with an encoder, without a classification head, and rows for it."""

    def make(family):
        tiny = make_tiny(family, layers=2)
        folder = tmp_path / family
        getattr(tiny.model, tiny.model.base_model_prefix).float().save_pretrained(folder)
        tiny.tokenizer.save_pretrained(folder)
        texts = [row["text"] for row in tiny.rows]
        rows = [{"text": text, "pair": None, "label": i % 2} for i, text in enumerate(texts[:32])]
        return folder, tiny.tokenizer, rows

    return make


def entry(folder, **changes):
    return {"from": {"path": str(folder)}, "epochs": 1, "batch": 8, "rate": 1e-12, "dropout": 0.1} | changes


@pytest.mark.parametrize("family", FAMILIES)
def test_it_starts_from_the_encoder_and_a_new_head(family, pretrained):
    folder, tokenizer, rows = pretrained(family)
    model = checkpoints.finetune(entry(folder), tokenizer, rows, CLASSES, 1)
    assert model.config.id2label == {0: "no", 1: "yes"} and not model.training
    before = AutoModel.from_pretrained(folder).state_dict()
    after = getattr(model, model.base_model_prefix).state_dict()
    shared = [name for name in after if name.startswith("encoder.")]
    assert shared and all(torch.allclose(after[name], before[name], atol=1e-6) for name in shared)
    rates = {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)}
    assert rates == {0.1}


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
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "encoder" not in name}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="it is not a pretrained encoder"):
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
