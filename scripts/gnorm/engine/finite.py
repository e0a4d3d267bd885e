"""Values that are not finite, and scores that rank nothing, stop a job and say where they come from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import nn

from gnorm.errors import UserError
from gnorm.models.slots import uncached

if TYPE_CHECKING:
    from gnorm.engine.batches import Batch
    from gnorm.models.slots import SlotMap


class NotFinite(UserError):
    """A NaN or an infinity: nothing computed from it means anything."""


class Checks:
    """Collects values that must be finite and checks them all at once, because each check makes a GPU wait.

    `look` names the row, the layer and the slot of the first bad value. Use no value before `look` was called.
    """

    def __init__(self, model: nn.Module, heads: SlotMap):
        self.model, self.heads = model, heads
        self.pending: list[tuple[torch.Tensor, Callable[[int, int, float], str]]] = []

    def logits(self, batch: Batch, logits: torch.Tensor) -> None:
        """Check the logits of every row of a batch."""
        given = batch.source or batch  # so that a copy on the device is not kept until `look`
        self._add(logits, lambda row, *_: broken_logits(self.model, self.heads, given, row))

    def slots(self, values: torch.Tensor, what: str, rows: torch.Tensor) -> None:
        """Check values of every row: rows x ... x layers x slots."""
        shape = values.shape[-2:]

        def explain(row: int, place: int, value: float) -> str:
            layer, slot = place % shape.numel() // shape[1], place % shape[1]
            return f"{what} of layer {layer}, {self.heads.unit} {slot} is {value} for row {rows[row]}"

        self._add(values, explain)

    def _add(self, values: torch.Tensor, explain: Callable[[int, int, float], str]) -> None:
        values = values.detach().flatten(1)
        if not values.shape[1]:
            return
        bad = ~values.isfinite()
        place = bad.byte().argmax(1, keepdim=True)  # of the first one of a row
        first = torch.cat([bad.any(1, keepdim=True), place, values.gather(1, place)], dim=1)
        self.pending.append((first, explain))

    def look(self) -> None:
        """Stop at the first value that is not finite."""
        pending, self.pending = self.pending, []
        if not pending:
            return
        firsts = torch.cat([part.double() for part, _ in pending]).cpu()
        ends = [0, *accumulate(len(part) for part, _ in pending)]
        for at in firsts[:, 0].nonzero().flatten().tolist()[:1]:
            which = bisect_right(ends, at) - 1
            raise NotFinite(pending[which][1](at - ends[which], int(firsts[at, 1]), firsts[at, 2].item()))


@contextmanager
def collected(checks: Checks | None, model: nn.Module, heads: SlotMap) -> Iterator[Checks]:
    """Yield the caller's checks, or checks that are looked at when the block ends."""
    own = checks or Checks(model, heads)
    yield own
    if checks is None:
        own.look()


def check_logits(model: nn.Module, heads: SlotMap, batch: Batch, logits: torch.Tensor) -> None:
    """Stop at the first row whose logits are not finite, and name the head where this begins."""
    with collected(None, model, heads) as checks:
        checks.logits(batch, logits)


def broken_logits(model: nn.Module, heads: SlotMap, batch: Batch, at: int) -> str:
    """Describe a row whose logits are not finite, and where that begins."""
    return f"the model's logits are not finite for row {batch.rows[at]}: {_origin(model, heads, batch.row(at))}"


def check_slots(values: torch.Tensor, what: str, unit: str = "head") -> None:
    """Stop at the first value that is not finite; `values` are layers x slots on the host."""
    if values.isfinite().all():
        return
    layer, slot = (~values.isfinite()).nonzero()[0].tolist()
    raise NotFinite(f"{what} of layer {layer}, {unit} {slot} is {values[layer, slot].item()}")


def check_differ(
    score: torch.Tensor,
    name: str,
    heads: SlotMap,
    model: nn.Module | None = None,
    batches: Sequence[Batch] = (),
    means: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return a gradient score or entropy of the unpruned `model`; one that is 0 or the same for all slots stops a job.

    Nothing that is trained gives such a score, so something is wrong. Other criteria may have equal scores (ranks,
    gates, changes of a loss), and so may a pruned model: what is left may no longer reach the output. `means`, ...
    x layers x slots, are what the score is computed from, if dividing by a layer's norm can make it equal.
    """
    if score.numel() < 2 or (model is not None and not heads.kept(model).all()):
        return score
    values = score if means is None else means
    if score.any() and (values != values[..., :1, :1]).any():
        return score
    if batches and max(int(batch.mask.sum(1).max()) for batch in batches) == 1:
        why = "every row is a single token, which can attend to nothing else: take longer rows"
    else:
        why = "weights of the checkpoint, of its last layer or of Q and K, may be 0 or not loaded: take another one"
    value = score.flatten()[0].item() + 0.0  # not -0
    raise UserError(f"the score {name} is {value:.3g} for all {score.numel()} {heads.unit}s, so it ranks none: {why}")


def _origin(model: nn.Module, heads: SlotMap, batch: Batch) -> str:
    """Find where the first non-finite value turns up in a forward pass of one row."""
    places: list[str] = []

    def watch(layers, kept):
        def look(_module, args):
            layer, output = next(layers), args[0].flatten(2)
            good = output.isfinite().flatten(0, 1).unflatten(-1, (len(kept), heads.width)).all(-1).all(0)
            if not places and not good.all():
                bad = [kept[i] for i in (~good).nonzero().flatten().tolist()]
                if len(bad) < len(kept) or len(kept) == 1:
                    places.append(f"it begins in layer {layer}, {heads.unit} {bad[0]}")
                else:
                    places.append(
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
        with torch.no_grad(), uncached(model):
            model(**batch.to(model.device).inputs)
    finally:
        for handle in handles:
            handle.remove()
    return places[0] if places else f"it begins above the {heads.unit}s of layer {heads.layers - 1}"
