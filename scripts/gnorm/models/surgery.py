"""Removing heads or neurons: structurally, or by a gate that gives the same outputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
import transformers
from torch import nn
from transformers.pytorch_utils import Conv1D

from gnorm.models.gates import Gates, Slot
from gnorm.models.heads import HeadMap, pruned_heads
from gnorm.models.neurons import NeuronMap, pruned_neurons, set_pruned
from gnorm.models.slots import Repeated, SlotMap, projection

_verbosity = transformers.logging.get_verbosity()
from textpruner import GeneralConfig, TransformerPruner  # noqa: E402

transformers.logging.set_verbosity(_verbosity)  # importing TextPruner turns it up to INFO


def prune(model: nn.Module, heads: SlotMap, slots: Iterable[Slot]) -> None:
    """Cut the slots' rows and columns out of the projections: heads with TextPruner where it knows the family.

    A block may lose all its slots. The new projections are frozen and keep the dtype and the hooks of the old ones, so
    gates stay in place.
    """
    mask = torch.ones(heads.shape)
    for row, head in slots:
        mask[row, head] = 0
    if heads.textpruner:
        _prune_with_textpruner(model, mask)
    else:
        before = heads.kept(model)
        after = before & mask.bool()
        cut = _cut_neurons if isinstance(heads, NeuronMap) else _cut_heads
        for row in (before != after).any(1).nonzero().flatten().tolist():
            cut(model, heads, row, before[row], after[row])
    model.requires_grad_(False)


def _prune_with_textpruner(model: nn.Module, mask: torch.Tensor) -> None:
    parameter, before = next(model.parameters()), dict(model.named_modules())
    default = torch.get_default_dtype()
    torch.set_default_dtype(parameter.dtype)  # the projections are rebuilt in the default dtype
    try:
        # Any existing folder will do: TextPruner makes its output folder even when it saves nothing.
        general = GeneralConfig(use_device=str(parameter.device), output_dir=".")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Initializing zero-element tensors")  # a block without heads
            TransformerPruner(model, general_config=general).prune(head_mask=mask, save_model=False)
    finally:
        torch.set_default_dtype(default)
    for name, module in model.named_modules():
        if module is not before[name]:
            # The same dictionaries and not copies, because a handle removes its hook from its dictionary.
            vars(module).update({key: hooks for key, hooks in vars(before[name]).items() if "hook" in key})


def _cut_heads(model: nn.Module, heads: HeadMap, row: int, before: torch.Tensor, after: torch.Tensor) -> None:
    """Leave the slots `after` of those that a row had `before`."""
    block, attention = heads.blocks[row], model.get_submodule(heads.blocks[row].attention)
    own = after[before].repeat_interleave(heads.width)
    used, repeated = heads.sharing(after)
    shared = torch.tensor([group in used for group in heads.sharing(before)[0]]).repeat_interleave(heads.key_width)
    for name, parts in block.sources:
        _keep(projection(model, name), torch.cat([(own, shared, shared)[part] for part in parts]), outputs=True)
    _keep(projection(model, block.output), own, outputs=False)
    if heads.share > 1:  # groups of unequal size: K and V are repeated here and no longer by the attention module
        for name in (block.key, block.value):
            model.set_submodule(name, Repeated(projection(model, name), repeated, heads.key_width))
        setattr(attention, heads.repeats, 1)
    gone = (before & ~after).nonzero().flatten().tolist()
    for name, amount in heads.counts.items():
        setattr(attention, name, getattr(attention, name) - len(gone) * amount)
    if not after.any():
        attention.__class__ = _without_heads(type(attention))
        inside = block.output.startswith(f"{block.attention}.")
        attention.output_name = block.output.removeprefix(f"{block.attention}.") if inside else None
        attention.returned = heads.returns
    pruned_heads(model)[row] = sorted([*pruned_heads(model).get(row, []), *gone])


def _cut_neurons(model: nn.Module, neurons: NeuronMap, row: int, before: torch.Tensor, after: torch.Tensor) -> None:
    block, columns = neurons.blocks[row], after[before].repeat_interleave(neurons.width)
    for name in block.up:
        _keep(model.get_submodule(name), columns, outputs=True)
    _keep(model.get_submodule(block.output), columns, outputs=False)
    gone = (~after).repeat_interleave(neurons.width).nonzero().flatten().tolist()
    set_pruned(model, pruned_neurons(model) | {row: gone})


def _keep(module: nn.Module, columns: torch.Tensor, outputs: bool) -> None:
    """Cut a projection to some of its output or input columns."""
    along = 0 if outputs != isinstance(module, Conv1D) else 1
    module.weight = nn.Parameter(_parts(module.weight.data, along, columns))
    if outputs and module.bias is not None:
        module.bias = nn.Parameter(_parts(module.bias.data, 0, columns))
    set_size(module, int(columns.sum()), outputs)


def _parts(tensor: torch.Tensor, along: int, wanted: torch.Tensor) -> torch.Tensor:
    """Select the `wanted` indices of a tensor along a dimension, by flags on the host.

    The parts are slices: with a mask, a GPU would have to wait to learn what it selects.
    """
    edges = torch.cat([wanted.new_zeros(1), wanted, wanted.new_zeros(1)]).int().diff().nonzero().flatten().tolist()
    parts = [tensor.narrow(along, first, end - first) for first, end in zip(edges[::2], edges[1::2], strict=True)]
    return torch.cat(parts, along) if parts else tensor.narrow(along, 0, 0).clone()


def set_size(module: nn.Module, size: int, outputs: bool) -> None:
    """Set a projection's own record of its number of output or input columns."""
    names = ("nf", "nx") if isinstance(module, Conv1D) else ("out_features", "in_features")
    setattr(module, names[0] if outputs else names[1], size)
    if isinstance(module, Conv1D) and not outputs:
        module.__class__ = Conv1D if size else _BiasAlone


class _BiasAlone(Conv1D):
    """A `Conv1D` without inputs; its parent's forward cannot reshape a tensor of no columns."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bias.expand(*x.shape[:-1], self.nf)


@cache
def _without_heads(kind: type[nn.Module]) -> type[nn.Module]:
    """Make the class of an attention module that has lost its last head.

    It returns the output projection's bias, if the module holds that projection, or else no columns.
    Most attention code cannot reshape a tensor of no heads.
    """

    def forward(self, *args, **kwargs):
        hidden = next(value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))
        rows, length, _ = hidden.shape
        if self.output_name is None:
            left = hidden.new_empty(rows, length, 0)
        else:
            bias = self.get_submodule(self.output_name).bias
            left = torch.zeros_like(hidden) if bias is None else bias.expand_as(hidden)
        matrix = hidden.new_empty(rows, 0, length, length)
        return (left, matrix, *[None] * self.returned)[: self.returned] if self.returned else left

    return type(f"{kind.__name__}WithoutHeads", (kind,), {"forward": forward, "with_heads": kind})


def give_back_class(attention: nn.Module) -> None:
    """Undo `_without_heads` for a module that has heads again."""
    if hasattr(attention, "with_heads"):
        attention.__class__ = attention.with_heads
        del attention.output_name, attention.returned


def remove_closed(gates: Gates) -> list[Slot]:
    """Prune the slots whose gates are exactly 0; the others keep their gates. Outputs do not change."""
    slots = gates.closed
    prune(gates.model, gates.heads, slots)
    return slots


@contextmanager
def gated(model: nn.Module, heads: SlotMap, slots: Iterable[Slot]) -> Iterator[None]:
    """Multiply the outputs of the slots by zero inside the `with` block."""
    with Gates(model, heads) as gates:
        gates.close(slots)
        yield
