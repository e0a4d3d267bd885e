"""Where a model keeps its attention heads.

A slot (layer, head) is what can be pruned. Most models have one block of projections a
layer; ALBERT shares one block among all its layers, so its slots form a single row and
pruning one switches the head off everywhere. Where a group of query heads shares one key
and one value head, a slot is the whole group, or one query head. Nothing else in the package
knows a model family by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import torch
from torch import nn
from transformers import PretrainedConfig
from transformers.pytorch_utils import Conv1D

from gnorm.errors import UserError
from gnorm.models.slots import SlotMap, projection

PARTS = ("query", "key", "value", "output")


@dataclass(frozen=True)
class Block:
    """One attention module and its projections, by their names in the model.

    Names and not modules, because pruning replaces the modules. A projection that gives Q, K and V
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
        """Each projection once, with those of Q, K and V (0, 1, 2) that it gives."""
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
    # What structural pruning has to tell the attention module: its attributes that count heads or columns,
    # with what a slot adds to each, and the one that says how often a K/V head is repeated.
    counts: Mapping[str, int] = field(default_factory=dict)
    repeats: str = ""
    returns: int = 2  # things that the attention module returns, 0 for its output alone and no tuple
    textpruner: bool = False  # TextPruner knows the family
    reloads: bool = False  # the library rebuilds a pruned model from its configuration

    def __post_init__(self):
        object.__setattr__(self, "inner", self.inner or 4 * self.hidden)
        object.__setattr__(self, "key_width", self.key_width or self.width)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.blocks), self.heads

    def kept(self, model: nn.Module) -> torch.Tensor:
        mask = torch.ones(self.shape, dtype=torch.bool)
        for row, pruned in pruned_heads(model).items():
            mask[int(row), list(pruned)] = False
        return mask

    def to_slots(self, per_layer: torch.Tensor) -> torch.Tensor:
        """Layers x heads to slots: the mean over the layers that share a slot."""
        return torch.stack([per_layer[list(block.layers)].mean(0) for block in self.blocks])

    def sharing(self, kept: torch.Tensor) -> tuple[list[int], list[int]]:
        """K/V blocks that a row's kept slots use, and for each kept slot the place of its own among them."""
        slots = kept.nonzero().flatten().tolist()
        used = sorted({slot // self.share for slot in slots})
        return used, [used.index(slot // self.share) for slot in slots]

    def sizes(self, kept: torch.Tensor) -> tuple[int, int, int]:
        """Output columns of Q, K and V where a row's slots are kept so."""
        shared = len(self.sharing(kept)[0]) * self.key_width
        return int(kept.sum()) * self.width, shared, shared

    def of_slots(self, model: nn.Module, row: int, part: str, matrix: torch.Tensor | None = None) -> torch.Tensor:
        """A projection's weights by kept slot: slots x width x hidden, whatever way the model stores them.

        `part` is one of PARTS; `matrix`, of the weights' shape, takes their place: their gradient, say.
        Slots that share a K/V block each get it.
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
    """What has been pruned, by row: kept in the configuration, or in the model where there is none."""
    keeper = getattr(model, "config", model)
    if not hasattr(keeper, "pruned_heads"):
        keeper.pruned_heads = {}
    return keeper.pruned_heads


@dataclass(frozen=True)
class Layout:
    """A family's names: {i} is the layer, relative to the backbone; the others relative to the layer."""

    layer: str
    attention: str
    query: str
    key: str
    value: str
    output: str
    up: tuple[str, ...]  # of the feed-forward layer: what gives its neurons, then what gates them if that is another
    down: str
    inner: str = "intermediate_size"  # in the configuration
    causal: bool = False
    counts: tuple[str, ...] = ()  # attributes of the attention module that count heads
    sizes: tuple[str, ...] = ()  # ... and columns
    repeats: str = ""
    textpruner: bool = False
    reloads: bool = True


_SELF = "attention.self"
_BERT_LIKE = Layout(
    "encoder.layer.{i}",
    _SELF,
    f"{_SELF}.query",
    f"{_SELF}.key",
    f"{_SELF}.value",
    "attention.output.dense",
    up=("intermediate.dense",),
    down="output.dense",
    textpruner=True,
)
_ATTENTION = "albert_layers.0.attention"
_ALBERT = Layout(
    "encoder.albert_layer_groups.{i}",
    _ATTENTION,
    f"{_ATTENTION}.query",
    f"{_ATTENTION}.key",
    f"{_ATTENTION}.value",
    f"{_ATTENTION}.dense",
    up=("albert_layers.0.ffn",),
    down="albert_layers.0.ffn_output",
    textpruner=True,
)
_DISTILBERT = Layout(
    "transformer.layer.{i}",
    "attention",
    "attention.q_lin",
    "attention.k_lin",
    "attention.v_lin",
    "attention.out_lin",
    up=("ffn.lin1",),
    down="ffn.lin2",
    inner="hidden_dim",
    counts=("n_heads",),
    sizes=("dim",),
)
_GPT2 = Layout(
    "h.{i}",
    "attn",
    "attn.c_attn",
    "attn.c_attn",
    "attn.c_attn",
    "attn.c_proj",
    up=("mlp.c_fc",),
    down="mlp.c_proj",
    inner="n_inner",
    causal=True,
    counts=("num_heads",),
    sizes=("split_size",),
)
_GROUPED = Layout(
    "layers.{i}",
    "self_attn",
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    up=("mlp.up_proj", "mlp.gate_proj"),
    down="mlp.down_proj",
    causal=True,
    repeats="num_key_value_groups",
    reloads=False,
)
LAYOUTS = {
    "bert": _BERT_LIKE,
    "roberta": _BERT_LIKE,
    "xlm-roberta": _BERT_LIKE,
    "electra": _BERT_LIKE,
    "albert": _ALBERT,
    "distilbert": _DISTILBERT,
    "gpt2": _GPT2,
    "llama": _GROUPED,
    "qwen2": _GROUPED,
}


def head_map(model: nn.Module) -> HeadMap:
    """The slots of a HuggingFace model, with or without a head on top.

    They are what its configuration says (`keep`: found by a search, or given with the model), or what its family has.
    `prune_by` in its configuration says what a slot is where query heads share K and V: `group` (default)
    or `query`.
    """
    config = model.config
    if getattr(config, "head_map", None):
        return _stored(config.head_map)
    if config.model_type not in LAYOUTS:
        known = ", ".join(sorted(LAYOUTS))
        raise UserError(f"no head map for model type {config.model_type!r} (known: {known}): gnorm.search may find one")
    layout, placed = LAYOUTS[config.model_type], places(model)
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
        causal=layout.causal,
        counts=dict.fromkeys(layout.counts, 1) | dict.fromkeys(layout.sizes, slots["width"]),
        repeats=layout.repeats,
        textpruner=layout.textpruner,
        reloads=layout.reloads,
        **slots,
    )


def neurons_of(config: PretrainedConfig) -> int:
    """Neurons of a feed-forward layer of a known family."""
    return getattr(config, LAYOUTS[config.model_type].inner) or 4 * config.hidden_size


def places(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """A known family's modules that hold a layer's weights, by name, with the layers that run each."""
    config = model.config
    backbone = getattr(model, model.base_model_prefix, model)
    prefix = "" if backbone is model else f"{model.base_model_prefix}."
    layers = config.num_hidden_layers
    shared = [(i,) for i in range(layers)]
    if config.model_type == "albert":
        if config.inner_group_num != 1:
            raise UserError("ALBERT with inner_group_num other than 1 is not supported")
        groups = config.num_hidden_groups
        shared = [tuple(i for i in range(layers) if i * groups // layers == g) for g in range(groups)]
    return {prefix + LAYOUTS[config.model_type].layer.format(i=i): of for i, of in enumerate(shared)}


def keep(model: nn.Module, heads: HeadMap) -> None:
    """Write a map into the model's configuration, which is saved with it."""
    model.config.head_map = asdict(heads)


def _stored(values: dict) -> HeadMap:
    try:
        blocks = tuple(Block(**{**block, "layers": tuple(block["layers"])}) for block in values["blocks"])
        return HeadMap(**{**values, "blocks": blocks, "layer_names": tuple(values.get("layer_names", ()))})
    except (AttributeError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"head_map in config.json is no HeadMap ({reason}): write it with heads.keep") from error


def prune_by(model: nn.Module) -> str:
    unit = getattr(model.config, "prune_by", "group")
    if unit not in ("group", "query"):
        raise UserError(f"prune_by is {unit!r}; allowed: group, query")
    return unit


def slots_of(heads: int, key_heads: int, width: int, unit: str) -> dict[str, int]:
    """What of a HeadMap follows from the numbers of query heads and of K/V heads, and the width of one."""
    together = heads // key_heads
    if together == 1:
        return {"heads": heads, "width": width}
    if unit == "group":
        return {"heads": key_heads, "width": together * width, "key_width": width, "queries": together}
    return {"heads": heads, "width": width, "share": together}
