"""Where a model keeps its attention heads.

A slot (layer, head) is what can be pruned. Most models have one block of projections a
layer; ALBERT shares one block among all its layers, so its slots form a single row and
pruning one switches the head off everywhere. Nothing else in the package knows a model
family by name.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from gnorm import UserError


@dataclass(frozen=True)
class Block:
    """One attention module and its projections, by their names in the model.

    Names and not modules, because pruning replaces the modules.
    """

    attention: str  # its forward returns (output, attention probabilities)
    query: str
    key: str
    value: str
    output: str
    layers: tuple[int, ...]  # the layers that run it

    @property
    def projections(self) -> tuple[str, str, str]:
        return self.query, self.key, self.value


@dataclass(frozen=True)
class HeadMap:
    blocks: tuple[Block, ...]
    heads: int  # in each block, before pruning
    width: int  # of one head
    hidden: int  # size of the hidden states
    layer_names: tuple[str, ...] = ()  # modules that return (hidden states, ...), one a layer

    @property
    def shape(self) -> tuple[int, int]:
        """Slots as (rows, heads): the shape of a score."""
        return len(self.blocks), self.heads

    @property
    def layers(self) -> int:
        return sum(len(block.layers) for block in self.blocks)

    @property
    def total(self) -> int:
        """Heads of the unpruned model, tied ones counted in every layer."""
        return self.layers * self.heads

    def kept(self, model: nn.Module) -> torch.Tensor:
        """True for every slot still in the model."""
        mask = torch.ones(self.shape, dtype=torch.bool)
        for row, pruned in model.config.pruned_heads.items():
            mask[int(row), list(pruned)] = False
        return mask

    def left(self, model: nn.Module) -> int:
        """Heads still in the model, tied ones counted in every layer."""
        per_row = self.kept(model).sum(1).tolist()
        return sum(count * len(block.layers) for count, block in zip(per_row, self.blocks, strict=True))

    def to_slots(self, per_layer: torch.Tensor) -> torch.Tensor:
        """Layers x heads to slots: the mean over the layers that share a slot."""
        return torch.stack([per_layer[list(block.layers)].mean(0) for block in self.blocks])


# {i} is the layer; names are relative to the backbone.
_BERT_LIKE = {
    "layer": "encoder.layer.{i}",
    "attention": "encoder.layer.{i}.attention.self",
    "query": "encoder.layer.{i}.attention.self.query",
    "key": "encoder.layer.{i}.attention.self.key",
    "value": "encoder.layer.{i}.attention.self.value",
    "output": "encoder.layer.{i}.attention.output.dense",
}
_ALBERT = {
    "layer": "encoder.albert_layer_groups.{i}",
    "attention": "encoder.albert_layer_groups.{i}.albert_layers.0.attention",
    "query": "encoder.albert_layer_groups.{i}.albert_layers.0.attention.query",
    "key": "encoder.albert_layer_groups.{i}.albert_layers.0.attention.key",
    "value": "encoder.albert_layer_groups.{i}.albert_layers.0.attention.value",
    "output": "encoder.albert_layer_groups.{i}.albert_layers.0.attention.dense",
}
LAYOUTS = {"bert": _BERT_LIKE, "roberta": _BERT_LIKE, "xlm-roberta": _BERT_LIKE, "albert": _ALBERT}


def head_map(model: nn.Module) -> HeadMap:
    """The slots of a HuggingFace encoder, with or without a head on top."""
    config = model.config
    if config.model_type not in LAYOUTS:
        known = ", ".join(sorted(LAYOUTS))
        raise UserError(f"no head map for model type {config.model_type!r}; known: {known}")
    layout = dict(LAYOUTS[config.model_type])
    layout_name = layout.pop("layer")
    backbone = getattr(model, model.base_model_prefix, model)
    prefix = "" if backbone is model else f"{model.base_model_prefix}."
    layers = config.num_hidden_layers
    if config.model_type == "albert":
        if config.inner_group_num != 1:
            raise UserError("ALBERT with inner_group_num other than 1 is not supported")
        groups = config.num_hidden_groups
        shared = [tuple(i for i in range(layers) if i * groups // layers == g) for g in range(groups)]
    else:
        shared = [(i,) for i in range(layers)]
    blocks = tuple(
        Block(**{part: prefix + name.format(i=i) for part, name in layout.items()}, layers=group)
        for i, group in enumerate(shared)
    )
    names = [prefix + layout_name.format(i=i) for i in range(len(blocks))]
    width = config.hidden_size // config.num_attention_heads
    return HeadMap(blocks, config.num_attention_heads, width, config.hidden_size, tuple(names))
