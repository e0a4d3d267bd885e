"""The point of a trajectory to stop at, its mask, and the model's parameters before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import nn

from gnorm.errors import UserError
from gnorm.logs import log
from gnorm.models import surgery
from gnorm.models.accounting import modules
from gnorm.models.heads import HeadMap
from gnorm.statistics.columns import order_of
from gnorm.statistics.curves import megabytes, stop_point

Sizes = Sequence[tuple[str, int, int]]  # (module, depth, parameters)


@dataclass(frozen=True)
class Solution:
    facts: dict[str, Any]
    mask: torch.Tensor
    parameters: pd.DataFrame


def pick(trajectory: pd.DataFrame, all_pruned: float, tolerance: float, fixed: int | None) -> tuple[int, str]:
    """The step to stop at, and how it was chosen."""
    if fixed is None:
        return stop_point(trajectory["accuracy"].tolist(), all_pruned, tolerance), "automatic"
    pruned = trajectory["heads_pruned"].tolist()
    if fixed not in pruned:
        raise UserError(f"solution: {fixed} heads cannot be pruned; possible: {', '.join(map(str, pruned))}")
    return pruned.index(fixed), "fixed"


def compare(before: Sizes, after: Sizes) -> pd.DataFrame:
    """Parameters, share and megabytes of each module, before and after."""
    table = pd.DataFrame(before, columns=["module", "depth", "parameters before"])
    table["parameters after"] = [size for _, _, size in after]
    for when in ("before", "after"):
        size = table[f"parameters {when}"]
        table[f"share {when} (%)"] = 100 * size / size.iloc[0]
        table[f"MB {when}"] = megabytes(size)
    order = ["parameters before", "share before (%)", "MB before", "parameters after", "share after (%)", "MB after"]
    return table[["module", *order]]


def point(step: pd.Series, sizes: Sizes, metrics: Sequence[str]) -> dict[str, Any]:
    """The model at a step, as the trajectory measured it."""
    return {
        "accuracy": float(step["accuracy"]),
        "correct": int(step["correct"]),
        "evaluated": int(step["evaluated"]),
        "metrics": {name: float(step[name]) for name in metrics},
        "parameters": sizes[0][2],
        "megabytes": megabytes(sizes[0][2]),
    }


def solve(
    model: nn.Module,
    heads: HeadMap,
    *,
    trajectory: pd.DataFrame,
    all_pruned: float,
    strategy: str,
    tolerance: float,
    fixed: int | None = None,
    metrics: Sequence[str] = (),
) -> Solution:
    """Prune the model as far as the tolerance allows, or `fixed` heads.

    `all_pruned` is the accuracy without any head: a trajectory may end before that.
    """
    step, chosen = pick(trajectory, all_pruned, tolerance, fixed)
    order = order_of(trajectory)[:step]
    before = modules(model)
    if order:
        surgery.prune(model, heads, order)
    after = modules(model)
    pruned = int(trajectory["heads_pruned"].iloc[step])
    log.info("stop after %d of %d heads", pruned, heads.total)
    facts = {
        "strategy": strategy,
        "chosen": chosen,
        "tolerance": tolerance,
        "all_pruned_accuracy": all_pruned,
        "heads": heads.total,
        "heads_pruned": pruned,
        "steps": step,
        "pruned_slots": order,
        "before": point(trajectory.iloc[0], before, metrics),
        "after": point(trajectory.iloc[step], after, metrics),
    }
    return Solution(facts, heads.kept(model), compare(before, after))
