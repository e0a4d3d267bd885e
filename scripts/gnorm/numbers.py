"""Values that are not finite stop a job, and say where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from gnorm import UserError

if TYPE_CHECKING:
    from gnorm.batches import Batch
    from gnorm.heads import SlotMap


class NotFinite(UserError):
    """A NaN or an infinity: nothing computed from it means anything."""


def check_logits(model: nn.Module, heads: SlotMap, batch: Batch, logits: torch.Tensor) -> None:
    """Stop at the first row whose logits are not finite, and name the head where that begins."""
    if logits.isfinite().all():
        return
    at = int((~logits.isfinite()).flatten(1).any(1).nonzero()[0])
    where = _origin(model, heads, batch.row(at))
    raise NotFinite(f"the model's logits are not finite for row {batch.rows[at]}: {where}")


def check_slots(values: torch.Tensor, what: str, rows: torch.Tensor | None = None, unit: str = "head") -> None:
    """Stop at the first value that is not finite; the last two dimensions are layers and slots, the first is rows."""
    if values.isfinite().all():
        return
    *before, layer, slot = (~values.isfinite()).nonzero()[0].tolist()
    value = values[(*before, layer, slot)].item()
    of = f" for row {rows[before[0]]}" if rows is not None else ""
    raise NotFinite(f"{what} of layer {layer}, {unit} {slot} is {value}{of}")


def _origin(model: nn.Module, heads: SlotMap, batch: Batch) -> str:
    """Where the first value that is not finite turns up in a forward pass of one row."""
    found: list[str] = []

    def watch(layers, kept):
        def look(_module, args):
            layer, output = next(layers), args[0].flatten(2)
            good = output.isfinite().flatten(0, 1).unflatten(-1, (len(kept), heads.width)).all(-1).all(0)
            if not found and not good.all():
                bad = [kept[i] for i in (~good).nonzero().flatten().tolist()]
                if len(bad) < len(kept) or len(kept) == 1:
                    found.append(f"it begins in layer {layer}, {heads.unit} {bad[0]}")
                else:
                    found.append(
                        f"it begins at or below layer {layer}, in all {heads.unit}s from {heads.unit} {bad[0]}"
                    )

        return look

    still = heads.kept(model)
    handles = [
        model.get_submodule(block.output).register_forward_pre_hook(
            watch(iter(block.layers), still[row].nonzero().flatten().tolist())
        )
        for row, block in enumerate(heads.blocks)
        if still[row].any()
    ]
    try:
        with torch.no_grad():
            model(**batch.to(model.device).inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else f"it begins above the {heads.unit}s of layer {heads.layers - 1}"
