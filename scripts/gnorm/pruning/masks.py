"""Masks of a model's slots, heads or neurons: 1 = kept, a row of the file a row of slots."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch

from gnorm.errors import UserError
from gnorm.files import atomic
from gnorm.models.gates import Slot
from gnorm.models.slots import SlotMap
from gnorm.statistics.columns import order_of, read_run


def of_step(trajectory: str | Path, slots: SlotMap, step: int, run: int = 0) -> torch.Tensor:
    """What a run of a trajectory has left after so many steps."""
    table, mask = read_run(trajectory, run), torch.ones(slots.shape, dtype=torch.bool)
    if table["heads_left"].iloc[0] != slots.total:
        raise UserError(f"{trajectory} is of {table['heads_left'].iloc[0]} slots, not of the model's {slots.total}")
    if not 0 <= step < len(table):
        raise UserError(f"{trajectory} has steps 0 to {len(table) - 1}, not {step}")
    for row, slot in order_of(table)[:step]:
        mask[row, slot] = False
    return mask


def write(path: str | Path, mask: torch.Tensor) -> None:
    with atomic(path) as temporary:
        pd.DataFrame(mask.int().numpy()).to_csv(temporary, index=False, header=False)


def read(path: str | Path, slots: SlotMap) -> torch.Tensor:
    table = pd.read_csv(path, header=None)  # of numbers alone
    if table.shape != slots.shape or not table.isin([0, 1]).all(axis=None):
        raise UserError(f"{path} must hold {slots.shape[0]} x {slots.shape[1]} zeros and ones, one a {slots.unit}")
    return torch.tensor(table.values).bool()


def removed(mask: torch.Tensor) -> list[Slot]:
    """The slots to prune."""
    return [tuple(slot) for slot in (~mask).nonzero().tolist()]
