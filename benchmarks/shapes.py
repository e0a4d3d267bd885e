"""Models of the paper's exact shapes, randomly initialised, and rows of realistic lengths."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification

from gnorm.devices import device
from gnorm.models.heads import HeadMap, head_map
from gnorm.published import paper
from gnorm.published.architectures import config


@dataclass(frozen=True)
class Shape(paper.Architecture):
    length: float  # mean tokens of a row, special tokens included: an assumption, the datasets are not read
    batch: int  # rows of a batch in the authors' notebook
    rows: int  # rows scored here in one step
    passes: int  # passes over the rows that the notebook makes for one step; 0 if there is no notebook


def _papers(name: str, **own) -> Shape:
    said = paper.MODELS[name]
    return Shape(**{field.name: getattr(said, field.name) for field in fields(paper.Architecture)}, **own)


SHAPES = {
    "BERT": _papers("BERT", length=20, batch=32, rows=32, passes=12),
    "ALBERT": _papers("ALBERT", length=30, batch=32, rows=32, passes=1),
    "RoBERTa": _papers("ROBERTA", length=16, batch=4, rows=4, passes=24),
    "XLM-RoBERTa": _papers("XLM_ROBERTA", length=20, batch=8, rows=8, passes=12),
    "MiniLM": Shape("bert", 6, 12, 384, 30522, 512, 2, length=20, batch=32, rows=32, passes=0),
}
SAME_ENCODER = {"XLM-RoBERTa": "BERT"}  # accuracy and entropy would cost the same minutes again
NARROW = Shape("bert", 12, 4, 128, 1000, 512, 2, length=20, batch=32, rows=32, passes=0)  # deep and cheap


def build(shape: Shape, layers: int | None = None) -> tuple[torch.nn.Module, HeadMap]:
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config(shape, layers), attn_implementation="sdpa")
    model = model.to(device()).eval().requires_grad_(False)
    return model, head_map(model)


def rows(shape: Shape, count: int, length: int | None = None) -> list[dict]:
    """Rows of random token ids; lengths are log-normal around the shape's mean, or all the same."""
    random = np.random.default_rng(0)
    lengths = np.clip(random.lognormal(np.log(shape.length) - 0.1, 0.45, count).round(), 4, 200).astype(int)
    if length:
        lengths = np.full(count, length)
    drawn = [random.integers(10, shape.vocabulary, n).tolist() for n in lengths]
    return [{"row": i, "text": ids, "pair": None, "label": i % shape.classes} for i, ids in enumerate(drawn)]


class Ids:
    """A tokenizer for rows that are token ids already."""

    model_max_length = 512

    def __init__(self, shape: Shape):
        self.padding = 1 if "roberta" in shape.family else 0

    def __call__(self, ids: list[int], **_options) -> dict:
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def pad(self, encoded: list[dict], return_tensors: str = "pt", **_options) -> dict[str, torch.Tensor]:
        longest = max(len(e["input_ids"]) for e in encoded)
        filled = {"input_ids": self.padding, "attention_mask": 0}
        return {
            name: torch.tensor([e[name] + [value] * (longest - len(e[name])) for e in encoded])
            for name, value in filled.items()
        }
