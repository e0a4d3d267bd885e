"""A BERT classifier written by hand, pruned with the same tools as any other model.

    python examples/handwritten_bert.py results/mini/BERT

reads the checkpoint and the rows that `make demo` left there, prunes head after head by Gnorm, and prints
the accuracy of every step: the trajectory `greedy_gnorm` of the workflow, of a model that no library
knows. `head_map` below is all that the tools are told of it; docs/models.md says what they need.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import gelu

# So that it runs from a clone too; with the package installed (`pip install .`) this line can go.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from gnorm.errors import UserError
from gnorm.models.heads import Block, HeadMap


class Attention(nn.Module):
    def __init__(self, hidden: int, heads: int):
        super().__init__()
        self.heads, self.width = heads, hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, hidden)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The output, and the attention probabilities that entropy needs."""
        rows, length, _ = x.shape
        q, k, v = (
            projection(x).view(rows, length, self.heads, self.width).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.width)
        a = scores.masked_fill(~mask[:, None, None, :], -math.inf).softmax(-1)
        return self.output((a @ v).transpose(1, 2).flatten(2)), a


class Layer(nn.Module):
    def __init__(self, hidden: int, heads: int, inner: int, epsilon: float):
        super().__init__()
        self.attention = Attention(hidden, heads)
        self.norm_1 = nn.LayerNorm(hidden, epsilon)
        self.up, self.down = nn.Linear(hidden, inner), nn.Linear(inner, hidden)
        self.norm_2 = nn.LayerNorm(hidden, epsilon)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor]:
        x = self.norm_1(x + self.attention(x, mask)[0])
        return (self.norm_2(x + self.down(gelu(self.up(x)))),)


class Bert(nn.Module):
    def __init__(self, config: dict):
        super().__init__()
        hidden, epsilon = config["hidden_size"], config["layer_norm_eps"]
        self.words = nn.Embedding(config["vocab_size"], hidden)
        self.positions = nn.Embedding(config["max_position_embeddings"], hidden)
        self.types = nn.Embedding(config["type_vocab_size"], hidden)
        self.norm = nn.LayerNorm(hidden, epsilon)
        self.layers = nn.ModuleList(
            Layer(hidden, config["num_attention_heads"], config["intermediate_size"], epsilon)
            for _ in range(config["num_hidden_layers"])
        )
        self.pooler = nn.Linear(hidden, hidden)
        classes = config.get("id2label", ("LABEL_0", "LABEL_1"))  # the library does not write its own two
        self.classifier = nn.Linear(hidden, len(classes))

    def forward(self, input_ids, attention_mask, token_type_ids=None, output_attentions=False) -> SimpleNamespace:
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.norm(self.words(input_ids) + self.positions(places) + self.types(types))
        for layer in self.layers:
            (x,) = layer(x, attention_mask.bool())
        return SimpleNamespace(logits=self.classifier(self.pooler(x[:, 0]).tanh()))

    # The tools ask a model where it is and how precise.
    @property
    def device(self) -> torch.device:
        return self.words.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.words.weight.dtype


def head_map(model: Bert) -> HeadMap:
    attention = model.layers[0].attention
    names = [f"layers.{i}" for i in range(len(model.layers))]
    return HeadMap(
        blocks=tuple(
            Block(
                attention=f"{name}.attention",
                query=f"{name}.attention.query",
                key=f"{name}.attention.key",
                value=f"{name}.attention.value",
                output=f"{name}.attention.output",
                layers=(i,),
            )
            for i, name in enumerate(names)
        ),
        heads=attention.heads,
        width=attention.width,
        hidden=attention.output.out_features,
        layer_names=tuple(names),  # optional: layers below a pruned head then need not run again
        inner=model.layers[0].up.out_features,
        counts={"heads": 1},  # a pruned head takes 1 from `Attention.heads`
    )


# Names in a HuggingFace checkpoint, and here.
RENAMED = (
    (r"bert\.embeddings\.word_embeddings", "words"),
    (r"bert\.embeddings\.position_embeddings", "positions"),
    (r"bert\.embeddings\.token_type_embeddings", "types"),
    (r"bert\.embeddings\.LayerNorm", "norm"),
    (r"bert\.encoder\.layer\.(\d+)\.attention\.self\.", r"layers.\1.attention."),
    (r"bert\.encoder\.layer\.(\d+)\.attention\.output\.dense", r"layers.\1.attention.output"),
    (r"bert\.encoder\.layer\.(\d+)\.attention\.output\.LayerNorm", r"layers.\1.norm_1"),
    (r"bert\.encoder\.layer\.(\d+)\.intermediate\.dense", r"layers.\1.up"),
    (r"bert\.encoder\.layer\.(\d+)\.output\.dense", r"layers.\1.down"),
    (r"bert\.encoder\.layer\.(\d+)\.output\.LayerNorm", r"layers.\1.norm_2"),
    (r"bert\.pooler\.dense", "pooler"),
)


def load(folder: str | Path) -> Bert:
    """The classifier in a folder written by `save_pretrained`."""
    config = json.loads(Path(folder, "config.json").read_text(encoding="utf-8"))
    if config["hidden_act"] != "gelu":
        raise UserError(f"{folder}: this BERT knows the activation gelu, the checkpoint has {config['hidden_act']!r}")
    model, weights = Bert(config), {}
    saved = load_file(Path(folder, "model.safetensors"))
    saved.pop("bert.embeddings.position_ids", None)  # 0, 1, 2, ...: older versions of the library saved them
    for name, value in saved.items():
        for theirs, ours in RENAMED:
            name = re.sub(f"^{theirs}", ours, name)
        weights[name] = value
    model.load_state_dict(weights)
    return model.eval().requires_grad_(False)


def prune(model: Bert, tokenizer, calibration: list[dict], evaluation: list[dict], tokens: int = 2048):
    """Greedy-Gnorm, step by step."""
    from gnorm.engine import batches
    from gnorm.engine.evaluate import Evaluation
    from gnorm.pruning.trajectory import follow
    from gnorm.scores import gnorm

    heads = head_map(model)
    scored = batches.make(tokenizer, calibration, tokens)
    measured = Evaluation(batches.make(tokenizer, evaluation, tokens), heads, memory_mb=500)
    for step, _ in follow(model, heads, measured, lambda now: (gnorm.score(now, heads, scored), {})):
        yield step


def main(folder: str) -> None:
    from gnorm.data.rows import read
    from gnorm.models import checkpoints

    torch.set_num_threads(1)
    model, tokenizer = load(f"{folder}/checkpoint"), checkpoints.load_tokenizer(f"{folder}/checkpoint")
    print("step layer head  accuracy  parameters")
    for step in prune(
        model, tokenizer, read(f"{folder}/dataset", "calibration"), read(f"{folder}/dataset", "evaluation")
    ):
        layer, head = ("-", "-") if step.layer is None else (step.layer, step.head)
        print(f"{step.step:4} {layer:>5} {head:>4}  {step.accuracy:8.3f}  {step.parameters:10,}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/handwritten_bert.py results/SUITE/MODEL")
    main(sys.argv[1])
