"""Where a model keeps its attention heads.

A slot (layer, head) is the unit of pruning. Most models have one block of projections per
layer; ALBERT shares one block among all its layers, so its slots form a single row and
pruning one switches the head off everywhere. Where a group of query heads shares one key
and one value head, a slot is the whole group, or one query head. `gnorm.families` has the names of
each family's modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import torch
from torch import nn
from transformers import PretrainedConfig
from transformers.pytorch_utils import Conv1D

from gnorm import families
from gnorm.errors import UserError
from gnorm.models.slots import SlotMap, projection

PARTS = ("query", "key", "value", "output")
FORMER = ("returns", "reloads")  # fields that maps in configurations of earlier releases may have


@dataclass(frozen=True)
class Block:
    """One attention module and its projections, by their names in the model.

    It holds names and not modules, because pruning replaces the modules. A projection that gives Q, K and V
    one after another is named three times.
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

    @property
    def fused(self) -> bool:
        return self.query == self.key == self.value

    @property
    def sources(self) -> list[tuple[str, tuple[int, ...]]]:
        """List each projection once, with the parts it gives: Q, K, V as 0, 1, 2."""
        if self.fused:
            return [(self.query, (0, 1, 2))]
        return [(name, (part,)) for part, name in enumerate(self.projections)]


@dataclass(frozen=True)
class HeadMap(SlotMap):
    unit, parts = "head", PARTS
    blocks: tuple[Block, ...]
    heads: int  # slots in each block, before pruning
    width: int  # of a slot: rows of W_Q, columns of W_O
    hidden: int  # size of the hidden states
    layer_names: tuple[str, ...] = ()  # modules that return (hidden states, ...), one a layer
    inner: int = 0  # size of the feed-forward layer, 0 for four times the hidden states
    key_width: int = 0  # rows of a slot in W_K and in W_V, 0 for `width`
    queries: int = 1  # attention matrices of a slot: query heads of a group that is pruned as one
    share: int = 1  # slots that share a block of W_K and W_V: query heads of a group, pruned one by one
    causal: bool = False  # a token attends to itself and to those before it
    # Attributes of the attention module that structural pruning must change: those that count heads or columns, with
    # the amount a slot adds to each, and the one that says how often a K/V head is repeated.
    counts: Mapping[str, int] = field(default_factory=dict)
    repeats: str = ""
    textpruner: bool = False  # TextPruner removes its heads

    def __post_init__(self):
        object.__setattr__(self, "inner", self.inner or 4 * self.hidden)
        object.__setattr__(self, "key_width", self.key_width or self.width)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.blocks), self.heads

    def kept(self, model: nn.Module) -> torch.Tensor:
        mask = torch.ones(self.shape, dtype=torch.bool)
        for row, pruned in pruned_heads(model).items():
            mask[row, list(pruned)] = False
        return mask

    def to_slots(self, per_layer: torch.Tensor) -> torch.Tensor:
        """Turn layers x heads into slots: the mean over the layers that share a slot."""
        return torch.stack([per_layer[list(block.layers)].mean(0) for block in self.blocks])

    def sharing(self, kept: torch.Tensor) -> tuple[list[int], list[int]]:
        """List the K/V blocks that a row's kept slots use, and for each kept slot the place of its block among them."""
        slots = kept.nonzero().flatten().tolist()
        used = sorted({slot // self.share for slot in slots})
        return used, [used.index(slot // self.share) for slot in slots]

    def sizes(self, kept: torch.Tensor) -> tuple[int, int, int]:
        """Count the output columns of Q, K and V of a row with the `kept` slots."""
        shared = len(self.sharing(kept)[0]) * self.key_width
        return int(kept.sum()) * self.width, shared, shared

    def of_slots(self, model: nn.Module, row: int, part: str, matrix: torch.Tensor | None = None) -> torch.Tensor:
        """Arrange a projection's weights by kept slot: slots x width x hidden, however the model stores them.

        `part` is one of PARTS. `matrix`, of the weights' shape, replaces them, for example by their gradient.
        Slots that share a K/V block each get a copy.
        """
        module, kept = projection(model, getattr(self.blocks[row], part)), self.kept(model)[row]
        matrix = module.weight if matrix is None else matrix
        if isinstance(module, Conv1D) != (part == "output"):  # to rows of W_Q, W_K, W_V or columns of W_O
            matrix = matrix.T
        if part != "output" and self.blocks[row].fused:
            matrix = matrix.split(self.sizes(kept))[PARTS.index(part)]
        width = self.key_width if part in ("key", "value") else self.width
        blocks = matrix.reshape(matrix.shape[0] // width, width, matrix.shape[1])
        return blocks[self.sharing(kept)[1]] if part in ("key", "value") and self.share > 1 else blocks


def pruned_heads(model: nn.Module) -> dict[int, list[int]]:
    """Pruned heads by row, stored in the configuration, or in the model if it has none."""
    keeper = getattr(model, "config", model)
    gone = getattr(keeper, "pruned_heads", {})
    if not hasattr(keeper, "pruned_heads") or any(isinstance(row, str) for row in gone):  # as JSON has them
        keeper.pruned_heads = gone = {int(row): list(slots) for row, slots in gone.items()}
    return gone


def head_map(model: nn.Module) -> HeadMap:
    """Map the slots of a HuggingFace model, with or without a head on top.

    They come from its configuration (written by `keep` after a search, or given with the model), or from its family.
    Where query heads share K and V, `prune_by` in its configuration says what a slot is: `group` (default)
    or `query`.
    """
    config = model.config
    if getattr(config, "head_map", None):
        return _in_body(model, _stored(config.head_map))
    family = families.find(config.model_type)
    if family is None:
        known = ", ".join(families.names())
        raise UserError(
            f"no head map for model type {config.model_type!r} (known: {known}): "
            "gnorm.models.search.find(model) looks for its heads"
        )
    layout, placed = family.layout, places(model)
    parts = ("attention", *PARTS)
    blocks = tuple(
        Block(**{part: f"{name}.{getattr(layout, part)}" for part in parts}, layers=layers)
        for name, layers in placed.items()
    )
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    slots = slots_of(heads, getattr(config, "num_key_value_heads", None) or heads, width, prune_by(model))
    return HeadMap(
        blocks,
        hidden=config.hidden_size,
        layer_names=tuple(placed),
        inner=neurons_of(config),
        causal=family.decoder,
        counts=dict.fromkeys(layout.counts, 1) | dict.fromkeys(layout.sizes, slots["width"]),
        repeats=layout.repeats,
        textpruner=family.textpruner,
        **slots,
    )


def neurons_of(config: PretrainedConfig) -> int:
    """Count the neurons of a feed-forward layer of a known family."""
    name = families.load(config.model_type).dimensions["feed_forward"]
    return getattr(config, name) or 4 * config.hidden_size


def places(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Name the modules of a known family that hold a layer's weights, with the layers that run each."""
    config = model.config
    backbone = getattr(model, model.base_model_prefix, model)
    prefix = "" if backbone is model else f"{model.base_model_prefix}."
    layers = config.num_hidden_layers
    shared = [(i,) for i in range(layers)]
    family = families.load(config.model_type)
    for name, value in family.demands.items():
        if getattr(config, name) != value:
            raise UserError(f"a model of type {family.name} with {name} other than {value} is not supported")
    if family.tied:
        groups = getattr(config, family.tied)
        shared = [tuple(i for i in range(layers) if i * groups // layers == g) for g in range(groups)]
    return {prefix + family.layout.layer.format(i=i): of for i, of in enumerate(shared)}


def keep(model: nn.Module, heads: HeadMap) -> None:
    """Write a map into the model's configuration, which is saved with it."""
    model.config.head_map = asdict(heads)


def _stored(values: dict) -> HeadMap:
    try:
        values = {key: value for key, value in values.items() if key not in FORMER}
        blocks = tuple(Block(**{**block, "layers": tuple(block["layers"])}) for block in values["blocks"])
        return HeadMap(**{**values, "blocks": blocks, "layer_names": tuple(values.get("layer_names", ()))})
    except (AttributeError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"head_map in config.json is no HeadMap ({reason}): write it with heads.keep") from error


def _in_body(model: nn.Module, heads: HeadMap) -> HeadMap:
    """Rename the modules of a map of a whole model, if this is its body alone."""
    prefix = f"{getattr(model, 'base_model_prefix', '')}."
    if getattr(model, prefix[:-1], model) is not model or not heads.blocks[0].attention.startswith(prefix):
        return heads
    parts = ("attention", *PARTS)
    blocks = (replace(b, **{part: getattr(b, part).removeprefix(prefix) for part in parts}) for b in heads.blocks)
    names = tuple(name.removeprefix(prefix) for name in heads.layer_names)
    return replace(heads, blocks=tuple(blocks), layer_names=names)


def prune_by(model: nn.Module) -> str:
    unit = getattr(model.config, "prune_by", "group")
    if unit not in ("group", "query"):
        raise UserError(f"prune_by is {unit!r}; allowed: group, query")
    return unit


def slots_of(heads: int, key_heads: int, width: int, unit: str) -> dict[str, int]:
    """Derive the slots of a HeadMap from the numbers of query heads and of K/V heads, and the width of one."""
    together = heads // key_heads
    if together == 1:
        return {"heads": heads, "width": width}
    if unit == "group":
        return {"heads": key_heads, "width": together * width, "key_width": width, "queries": together}
    return {"heads": heads, "width": width, "share": together}
