"""Where a model keeps the neurons of its feed-forward layers.

A slot (layer, group) is `group` consecutive neurons of a layer: their rows of the projections up, and their
columns of the projection down, which a gate multiplies like a head's columns of W_O. Layers that share weights
share their neurons too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from gnorm import families
from gnorm.errors import UserError
from gnorm.models.heads import HeadMap, neurons_of, places
from gnorm.models.slots import SlotMap


@dataclass(frozen=True)
class FeedForward:
    """A feed-forward layer's projections, by their names in the model."""

    up: tuple[str, ...]  # with the projection that gates it, if there is one
    output: str  # down
    layers: tuple[int, ...]

    @property
    def projections(self) -> tuple[str, ...]:
        return self.up


@dataclass(frozen=True)
class NeuronMap(SlotMap):
    unit = "neuron group"
    blocks: tuple[FeedForward, ...]
    groups: int  # slots of a layer, before pruning
    width: int  # neurons of a slot
    hidden: int  # size of the hidden states
    layer_names: tuple[str, ...] = ()  # modules that return (hidden states, ...), one per layer

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.blocks), self.groups

    @property
    def parts(self) -> tuple[str, ...]:
        return ("up", "gate", "down") if len(self.blocks[0].up) > 1 else ("up", "down")

    def kept(self, model: nn.Module) -> torch.Tensor:
        neurons = torch.ones(len(self.blocks), self.groups * self.width, dtype=torch.bool)
        for row, gone in pruned_neurons(model).items():
            neurons[row, gone] = False
        by_group = neurons.unflatten(1, (self.groups, self.width))
        if not torch.equal(by_group.any(2), by_group.all(2)):
            raise UserError(f"the model has lost neurons in other groups than of {self.width}: take the size they had")
        return by_group.all(2)

    def of_slots(self, model: nn.Module, row: int, part: str) -> torch.Tensor:
        block, down = self.blocks[row], part == "down"
        module = model.get_submodule(block.output if down else block.up[self.parts.index(part)])
        matrix = module.weight.T if isinstance(module, Conv1D) != down else module.weight
        return matrix.reshape(matrix.shape[0] // self.width, self.width, matrix.shape[1])


def pruned_neurons(model: nn.Module) -> dict[int, list[int]]:
    """Pruned neurons by row, stored in the configuration, or in the model if it has none."""
    stored = getattr(getattr(model, "config", model), "pruned_neurons", {})
    return {int(row): gone for row, gone in stored.items()}


def set_pruned(model: nn.Module, gone: dict[int, list[int]]) -> None:
    getattr(model, "config", model).pruned_neurons = gone


def known(model: nn.Module) -> bool:
    """Whether this module knows where the model's neurons are."""
    return families.find(model.config.model_type) is not None


def neuron_map(model: nn.Module, group: int) -> NeuronMap:
    """Map the neurons of a HuggingFace model of a known family, `group` per slot; 0 puts a layer's in one slot."""
    kind = model.config.model_type
    if not known(model):
        raise UserError(f"no map of neurons for model type {kind!r} (known: {', '.join(families.names())})")
    layout, placed, hidden = families.load(kind).layout, places(model), model.config.hidden_size
    neurons = neurons_of(model.config)  # not the head map's number: a map that came with the model may not have it
    group = group or neurons
    if neurons % group:
        nearest = min((n for n in range(1, neurons + 1) if neurons % n == 0), key=lambda n: abs(n - group))
        raise UserError(f"neurons.group: must divide the {neurons} neurons of a layer, got {group}; take {nearest}")
    blocks = tuple(
        FeedForward(tuple(f"{name}.{up}" for up in layout.up), f"{name}.{layout.down}", layers)
        for name, layers in placed.items()
    )
    return NeuronMap(blocks, neurons // group, group, hidden, tuple(placed))


def slot_map(model: nn.Module, heads: HeadMap, strategy: Mapping[str, Any]) -> SlotMap:
    """Map the slots that a strategy prunes: the model's heads or its neurons."""
    return neuron_map(model, strategy["group"]) if strategy.get("unit") == "neurons" else heads
