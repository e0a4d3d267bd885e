"""A gate for every head, or group of neurons: it multiplies the slot's output before the output projection.

1 leaves a slot as it is, 0 switches it off, a value between weakens it. Nothing is lost: setting a gate
back to 1 restores the model to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from gnorm.models.slots import SlotMap, places_of

Slot = tuple[int, int]


class Gates:
    """Gates of a model's slots, all 1 at first; they work until `remove`, or the end of a `with` block.

    `values` (rows x heads) is read at every forward pass, and gets a gradient if it requires one.
    A slot that has been pruned has no gate: its value is not read.
    """

    def __init__(self, model: nn.Module, heads: SlotMap):
        self.model, self.heads = model, heads
        self.values = torch.ones(heads.shape, dtype=torch.float64)
        self._handles = [
            model.get_submodule(block.output).register_forward_pre_hook(self._hook(row))
            for row, block in enumerate(heads.blocks)
        ]

    def _hook(self, row: int):
        def apply(_module, args):
            values = self.values[row]
            if not values.requires_grad and bool((values == 1).all()):
                return None
            kept = places_of(self.heads.kept(self.model)[row], values.device)
            if not len(kept):  # nothing reads what a block without slots gives
                return None
            gate = values[kept].repeat_interleave(self.heads.width)
            gate = gate.to(args[0].device, args[0].dtype, non_blocking=True)
            return (args[0] * gate, *args[1:])

        return apply

    def __getitem__(self, slot: Slot) -> float:
        return self.values[slot].item()

    def __setitem__(self, slot: Slot, value: float) -> None:
        if not 0 <= value <= 1:
            raise ValueError(f"a gate is from 0 to 1, got {value}")
        with torch.no_grad():
            self.values[slot] = value

    def close(self, slots: Iterable[Slot]) -> None:
        for slot in slots:
            self[tuple(slot)] = 0

    def open(self, slots: Iterable[Slot] | None = None) -> None:
        """Open slots again; without `slots` all of them."""
        for slot in torch.ones(self.heads.shape).nonzero().tolist() if slots is None else slots:
            self[tuple(slot)] = 1

    @property
    def closed(self) -> list[Slot]:
        """Slots still in the model whose gate is exactly 0."""
        off = (self.values.detach() == 0).cpu() & self.heads.kept(self.model)
        return [tuple(slot) for slot in off.nonzero().tolist()]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> Gates:
        return self

    def __exit__(self, *_error) -> None:
        self.remove()
