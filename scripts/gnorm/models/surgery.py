"""Removing heads or neurons: structurally, or by a gate that gives the same outputs.

A block may lose all its heads. Its attention module then runs on one head of zeros, whose output its output
projection does not read: so the module's own code, its cache of keys and values, and what it adds or normalizes
stay what they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from gnorm.models.gates import Gates, Slot
from gnorm.models.heads import HeadMap, head_map, pruned_heads
from gnorm.models.neurons import NeuronMap, pruned_neurons, set_pruned
from gnorm.models.slots import Repeated, SlotMap, projection
from gnorm.models.versions import quiet, remember_pruned


def prune(model: nn.Module, heads: SlotMap, slots: Iterable[Slot]) -> None:
    """Cut the slots' rows and columns out of the projections: heads with TextPruner where the map says so.

    A block may lose all its slots. The new projections are frozen and keep the dtype and the hooks of the old ones, so
    gates stay in place.
    """
    kept = heads.kept(model)
    after = kept.clone()
    for row, head in slots:
        after[row, head] = False
    if heads.textpruner and not torch.equal(kept, after):
        _prune_with_textpruner(model, (after | ~kept).float())  # a head that is gone cannot go again
    else:
        cut(model, heads, kept, after)
    model.requires_grad_(False)


def cut(model: nn.Module, heads: SlotMap, before: torch.Tensor, after: torch.Tensor) -> None:
    """Leave the slots `after` of the slots that the model's weights have `before`."""
    one = _cut_neurons if isinstance(heads, NeuronMap) else _cut_heads
    for row in (before != after).any(1).nonzero().flatten().tolist():
        one(model, heads, row, before[row], after[row])


def _prune_with_textpruner(model: nn.Module, mask: torch.Tensor) -> None:
    with quiet():
        from textpruner import GeneralConfig, TransformerPruner

    parameter, before = next(model.parameters()), dict(model.named_modules())
    default = torch.get_default_dtype()
    torch.set_default_dtype(parameter.dtype)  # transformers 4 rebuilds the projections in the default dtype
    try:
        # Any existing folder will do: TextPruner makes its output folder even when it saves nothing.
        general = GeneralConfig(use_device=str(parameter.device), output_dir=".")
        with warnings.catch_warnings(), prunable(model):
            warnings.filterwarnings("ignore", "Initializing zero-element tensors")  # a block without heads
            TransformerPruner(model, general_config=general).prune(head_mask=mask, save_model=False)
    finally:
        torch.set_default_dtype(default)
    for name, module in model.named_modules():
        if module is not before[name]:
            # The same dictionaries and not copies, because a handle removes its hook from its dictionary.
            vars(module).update({key: hooks for key, hooks in vars(before[name]).items() if "hook" in key})


@contextmanager
def prunable(model: nn.Module) -> Iterator[None]:
    """Give a model's body the method `prune_heads` that TextPruner calls, where transformers does not have it."""
    body, heads = getattr(model, model.base_model_prefix, model), head_map(model)
    if hasattr(body, "prune_heads"):
        yield
        return

    def prune_heads(gone: Mapping[int, Iterable[int]]) -> None:
        before = heads.kept(model)
        after = before.clone()
        for row, slots in gone.items():
            after[row, list(slots)] = False
        cut(model, heads, before, after)

    body.prune_heads = prune_heads
    try:
        yield
    finally:
        del body.prune_heads


def _cut_heads(model: nn.Module, heads: HeadMap, row: int, before: torch.Tensor, after: torch.Tensor) -> None:
    """Leave the slots `after` of those that a row had `before`."""
    block, attention = heads.blocks[row], model.get_submodule(heads.blocks[row].attention)
    own = after[before].repeat_interleave(heads.width)
    used, repeated = heads.sharing(after)
    shared = torch.tensor([group in used for group in heads.sharing(before)[0]]).repeat_interleave(heads.key_width)
    computed = max(int(after.sum()), 1)
    for name, parts in block.sources:
        zeros = sum((heads.width, heads.key_width, heads.key_width)[part] for part in parts)
        keep_columns(projection(model, name), torch.cat([(own, shared, shared)[part] for part in parts]), True, zeros)
    keep_columns(projection(model, block.output), own, outputs=False)
    if heads.share > 1:  # groups of unequal size: K and V are repeated here and no longer by the attention module
        for name in (block.key, block.value):
            model.set_submodule(name, Repeated(projection(model, name), repeated or [0], heads.key_width))
        setattr(attention, heads.repeats, 1)
    for name, amount in heads.counts.items():
        setattr(attention, name, computed * amount)
    gone = (before & ~after).nonzero().flatten().tolist()
    remember_pruned(model, block.attention, gone)
    pruned_heads(model)[row] = sorted({*pruned_heads(model).get(row, []), *gone})


def _cut_neurons(model: nn.Module, neurons: NeuronMap, row: int, before: torch.Tensor, after: torch.Tensor) -> None:
    block, columns = neurons.blocks[row], after[before].repeat_interleave(neurons.width)
    for name in block.up:
        keep_columns(model.get_submodule(name), columns, outputs=True)
    keep_columns(model.get_submodule(block.output), columns, outputs=False)
    gone = (~after).repeat_interleave(neurons.width).nonzero().flatten().tolist()
    set_pruned(model, pruned_neurons(model) | {row: gone})


def keep_columns(module: nn.Module, columns: torch.Tensor, outputs: bool, zeros: int = 0) -> None:
    """Cut a projection to some of its output or input columns; one without outputs gives `zeros` columns of zeros."""
    along = 0 if outputs != isinstance(module, Conv1D) else 1
    module.weight = nn.Parameter(_parts(module.weight.data, along, columns))
    if outputs and module.bias is not None:
        module.bias = nn.Parameter(_parts(module.bias.data, 0, columns))
    set_size(module, int(columns.sum()), outputs, zeros)


def columns_of(module: nn.Module, outputs: bool = True) -> int:
    """Count a projection's output or input columns."""
    return module.weight.shape[0 if outputs != isinstance(module, Conv1D) else 1]


def _parts(tensor: torch.Tensor, along: int, wanted: torch.Tensor) -> torch.Tensor:
    """Select the `wanted` indices of a tensor along a dimension, by flags on the host.

    The parts are slices: with a mask, a GPU would have to wait to learn what it selects.
    """
    edges = torch.cat([wanted.new_zeros(1), wanted, wanted.new_zeros(1)]).int().diff().nonzero().flatten().tolist()
    parts = [tensor.narrow(along, first, end - first) for first, end in zip(edges[::2], edges[1::2], strict=True)]
    return torch.cat(parts, along) if parts else tensor.narrow(along, 0, 0).clone()


class Empty:
    """A projection that has lost all its output columns, or all its input columns."""

    zeros = 0  # columns of zeros that it gives
    whole: type[nn.Module]  # its class before


class NoOutputs(Empty):
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.new_zeros(*hidden.shape[:-1], self.zeros)


class NoInputs(Empty):
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        along = 1 if isinstance(self, Conv1D) else 0
        given = hidden.new_zeros(self.weight.shape[along]) if self.bias is None else self.bias
        return given.expand(*hidden.shape[:-1], -1)


# Classes at the top of a module, so that models can be pickled.
class LinearNoOutputs(NoOutputs, nn.Linear):
    pass


class LinearNoInputs(NoInputs, nn.Linear):
    pass


class Conv1DNoOutputs(NoOutputs, Conv1D):
    pass


class Conv1DNoInputs(NoInputs, Conv1D):
    pass


def set_size(module: nn.Module, size: int, outputs: bool, zeros: int = 0) -> None:
    """Set a projection's own record of its number of output or input columns, and its class where that is 0."""
    transposed = isinstance(module, Conv1D)
    names = ("nf", "nx") if transposed else ("out_features", "in_features")
    setattr(module, names[0] if outputs else names[1], size)
    if isinstance(module, Empty):
        module.__class__ = module.whole
    if not size:
        module.whole, module.zeros = type(module), zeros
        classes = (Conv1DNoOutputs, Conv1DNoInputs) if transposed else (LinearNoOutputs, LinearNoInputs)
        module.__class__ = classes[0] if outputs else classes[1]


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
