"""What a model's heads allow of `solution`, `stop` and `random.levels`.

Planning asks for models whose heads are known beforehand, the job that makes a checkpoint for all others. Imports no
torch, for planning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gnorm.errors import UserError
from gnorm.pruning.rescoring import most

if TYPE_CHECKING:
    from gnorm.models.slots import SlotMap


@dataclass(frozen=True)
class Size:
    """How many heads, or groups of neurons, a model has."""

    total: int  # tied ones counted in every layer
    step: int  # every step prunes as many, or a multiple: those of tied layers go together
    slots: int  # that can be pruned one by one

    @classmethod
    def of(cls, slots: SlotMap) -> Size:
        """Size of a loaded model."""
        return cls(slots.total, math.gcd(*(len(block.layers) for block in slots.blocks)), math.prod(slots.shape))

    def most(self, stop: Mapping[str, Any]) -> int:
        """How many a trajectory prunes at the most, before accuracy counts."""
        return most(self.total, stop.get("heads"), stop.get("fraction")) // self.step * self.step


def check(size: Size, *, stop: Mapping[str, Any], solution: int | None, levels: int) -> None:
    """Raise a `UserError` about settings that a loaded model cannot have."""
    if solution is not None:
        check_solution(solution, stop, size, "solution")
    check_stop(stop, size, "head")
    check_levels(levels, size, "random.levels")


def check_solution(wanted: int, stop: Mapping[str, Any], size: Size | None, where: str) -> None:
    """Refuse a number of heads that the trajectory does not come by; of some models the size is not known yet."""
    if "accuracy_drop" in stop and wanted:
        raise UserError(
            f"{where}: {wanted} heads, and `stop: accuracy_drop` in config.yaml may end before them: leave either out"
        )
    if wanted > stop.get("heads", wanted):
        raise UserError(
            f"{where}: {wanted} heads are more than `stop: heads: {stop['heads']}` in config.yaml lets a trajectory "
            "prune; change either"
        )
    if not size:
        return
    if wanted > size.total:
        raise UserError(f"{where}: {wanted} heads are more than the {size.total} that the model has")
    if wanted % size.step:
        raise UserError(f"{where}: must be a multiple of the {size.step} layers that share their heads, got {wanted}")
    if wanted > size.most(stop):
        raise UserError(
            f"{where}: {wanted} heads are more than `stop: {said(stop)}` in config.yaml lets a trajectory prune, "
            f"{size.most(stop)} of {size.total}; change either"
        )


def check_stop(stop: Mapping[str, Any], size: Size, unit: str) -> None:
    """Refuse an end before the first step. `unit` names the slots: `head of BERT`."""
    if size.most(stop) < size.step:
        raise UserError(
            f"config.yaml: stop: {said(stop)} ends before the first {unit} is pruned: a step prunes {size.step} of "
            f"its {size.total}; raise it"
        )


def check_levels(levels: int, size: Size, where: str) -> None:
    if levels > size.slots + 1:
        raise UserError(f"{where}: {size.slots} prunable heads allow at most {size.slots + 1}, got {levels}")


def said(stop: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in stop.items() if key != "accuracy_drop")
