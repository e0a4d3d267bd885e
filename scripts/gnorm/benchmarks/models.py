"""Models of a shape with random weights, and rows of random tokens for them."""

from __future__ import annotations

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification

from gnorm.benchmarks.shapes import Shape
from gnorm.devices import device
from gnorm.models.heads import HeadMap, head_map
from gnorm.published.architectures import config


def build(shape: Shape, layers: int | None = None) -> tuple[torch.nn.Module, HeadMap]:
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config(shape, layers), attn_implementation="sdpa")
    model = model.to(device()).eval().requires_grad_(False)
    return model, head_map(model)


def rows(shape: Shape, count: int, length: int | None = None) -> list[dict]:
    """Make texts of random token ids; their lengths are log-normal around the shape's mean, or all the same."""
    random = np.random.default_rng(0)
    lengths = np.clip(random.lognormal(np.log(shape.length) - 0.1, 0.45, count).round(), 4, 200).astype(int)
    if length:
        lengths = np.full(count, length)
    texts = [" ".join(map(str, random.integers(10, shape.vocabulary, n))) for n in lengths]
    return [{"row": i, "text": text, "pair": None, "label": i % shape.classes} for i, text in enumerate(texts)]


class Ids:
    """A tokenizer for rows whose words are token ids."""

    model_max_length = 512

    def __init__(self, shape: Shape):
        self.padding = shape.padding

    def __call__(self, text: str, **_options) -> dict:
        ids = list(map(int, text.split()))
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def pad(self, encoded: list[dict], return_tensors: str = "pt", **_options) -> dict[str, torch.Tensor]:
        longest = max(len(e["input_ids"]) for e in encoded)
        filled = {"input_ids": self.padding, "attention_mask": 0}
        return {
            name: torch.tensor([e[name] + [value] * (longest - len(e[name])) for e in encoded])
            for name, value in filled.items()
        }
