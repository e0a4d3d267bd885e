"""Slots, the units of pruning, and ways to watch, skip and start a model's layers that depend on them.

A slot (row, column) is a head or a group of neurons; `gnorm.models.heads` and `gnorm.models.neurons` find those
of a model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

import torch
from torch import nn

LayerOutput = torch.Tensor | tuple[torch.Tensor]  # layers return hidden states, bare or first in a tuple


class SlotMap(ABC):
    """Rows of slots: a row is a block of weights, a slot is `width` input columns of the output projection.

    Gates, criteria that use gates or losses, evaluation and the pruning loop need nothing else of a map.
    """

    unit: str  # the name of a slot in messages
    blocks: tuple  # each with the projection `output`, the `projections` before it and the `layers` that run it
    width: int  # of a slot: input columns of `output`
    hidden: int
    layer_names: tuple[str, ...]
    shape: tuple[int, int]  # rows and slots of a row: the shape of a score
    parts: tuple[str, ...]  # of a slot's weights, for `of_slots`
    textpruner = False

    @abstractmethod
    def kept(self, model: nn.Module) -> torch.Tensor:
        """True for every slot still in the model."""

    @abstractmethod
    def of_slots(self, model: nn.Module, row: int, part: str) -> torch.Tensor:
        """Arrange a part of the weights by kept slot: slots x width x hidden."""

    @property
    def layers(self) -> int:
        return sum(len(block.layers) for block in self.blocks)

    @property
    def total(self) -> int:
        """The number of slots of the unpruned model, tied ones counted in every layer."""
        return self.layers * self.shape[1]

    def left(self, model: nn.Module) -> int:
        """Count the slots still in the model, tied ones in every layer."""
        per_row = self.kept(model).sum(1).tolist()
        return sum(count * len(block.layers) for count, block in zip(per_row, self.blocks, strict=True))


class Repeated(nn.Module):
    """A K or V projection that repeats its blocks for every query head that uses them."""

    def __init__(self, inner: nn.Module, blocks: list[int], width: int):
        super().__init__()
        self.inner, self.width, self.blocks = inner, width, blocks

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        own = self.inner(hidden).unflatten(-1, (-1, self.width)).unbind(-2)
        return torch.cat([own[block] for block in self.blocks], -1)


def places_of(kept: torch.Tensor, device: torch.device) -> torch.Tensor:
    """List on a device the indices where a row of flags is true."""
    return on_device(kept.nonzero().flatten().tolist(), device)


def on_device(indices: Sequence[int], device: torch.device) -> torch.Tensor:
    """Copy indices of slots once: every batch and step needs them again, and a copy makes a GPU wait."""
    return _copied(array("q", indices).tobytes(), device)


@lru_cache(maxsize=1024)
def _copied(packed: bytes, device: torch.device) -> torch.Tensor:
    with torch.inference_mode(False):  # so that a backward pass may keep it, even if inference asked first
        return torch.tensor(array("q", packed).tolist(), dtype=torch.int64, device=device)


def projection(model: nn.Module, name: str) -> nn.Module:
    """The module that holds a projection's weights."""
    module = model.get_submodule(name)
    return module.inner if isinstance(module, Repeated) else module


@contextmanager
def eager(model: nn.Module) -> Iterator[None]:
    """Switch to attention that computes its matrix: not every family does so when asked for the matrix."""
    config = getattr(model, "config", None)
    before = getattr(config, "_attn_implementation", "eager")
    if before != "eager":
        config._attn_implementation = "eager"
    try:
        yield
    finally:
        if before != "eager":
            config._attn_implementation = before


@contextmanager
def uncached(model: nn.Module) -> Iterator[None]:
    """Run without a cache of keys and values.

    A layer that lost all its heads has none, and a layer that keeps them may return them where its attention belongs.
    """
    config = getattr(model, "config", None)
    before = getattr(config, "use_cache", False)
    if before:
        config.use_cache = False
    try:
        yield
    finally:
        if before:
            config.use_cache = before


@contextmanager
def as_evaluated(model: nn.Module) -> Iterator[None]:
    """Run a model without dropout, recomputed layers or a cache, and with frozen weights; give it back as it was."""
    training = [module for module in model.modules() if module.training]
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    for module in training:
        module.training = False
    for weight in learning:
        weight.requires_grad_(False)
    try:
        with uncached(model):
            yield
    finally:
        for module in training:
            module.training = True
        for weight in learning:
            weight.requires_grad_()


@contextmanager
def lowest_projections(model: nn.Module, heads: SlotMap, first: int = 0) -> Iterator[list[torch.Tensor]]:
    """Start the graph at the lowest projections with a slot, from row `first` on; weights are frozen."""
    roots: list[torch.Tensor] = []
    lowest: set[nn.Module] = set()  # projections of the block that runs first, until each has run

    def begin(row: int):
        def start(module, _args, output):
            if not roots:
                lowest.update(projection(model, name) for name in heads.blocks[row].projections)
            if not output.requires_grad:
                roots.append(output.requires_grad_())
            elif module in lowest:  # a hook has asked for gradients below
                roots.append(output)
            lowest.discard(module)

        return start

    kept = heads.kept(model)
    rows = {
        projection(model, name): row
        for row, block in enumerate(heads.blocks)
        if row >= first and kept[row].any()
        for name in block.projections
    }
    handles = [module.register_forward_hook(begin(row)) for module, row in rows.items()]
    try:
        yield roots
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def reused(
    model: nn.Module, heads: SlotMap, stored: dict[int, LayerOutput], kept_layers: Sequence[int]
) -> Iterator[None]:
    """Skip the layers up to the last one whose output is in `stored`; store the outputs of the others.

    `kept_layers` must be empty where layers share weights.
    """
    last = max(stored, default=-1)
    layers = [model.get_submodule(name) for name in heads.layer_names] if kept_layers else []

    def passed(hidden: torch.Tensor, *_args, **_keywords) -> LayerOutput:
        return hidden if isinstance(stored[last], torch.Tensor) else (hidden,)

    for layer in range(last):  # only the last one's output is read
        layers[layer].forward = passed
    if last >= 0:
        layers[last].forward = lambda *_args, **_keywords: stored[last]
    handles = [
        layers[layer].register_forward_hook(
            lambda _m, _a, out, layer=layer: stored.update({layer: out if isinstance(out, torch.Tensor) else out[:1]})
        )
        for layer in kept_layers
        if layer > last
    ]
    try:
        yield
    finally:
        for layer in range(last + 1):
            del layers[layer].forward
        for handle in handles:
            handle.remove()
