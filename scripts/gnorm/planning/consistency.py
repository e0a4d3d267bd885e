"""Settings that each make sense and together cannot work, as far as a model's dimensions are known beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gnorm import families
from gnorm.errors import UserError
from gnorm.planning.shapes import Shape, shape, slots_of, steps_of


def check(settings: dict[str, Any]) -> None:
    """Raise a `UserError` about settings of a loaded configuration that contradict each other."""
    stop = settings["stop"]
    for name, entry in settings["models"].items():
        where = f"suites/{settings['suite']}.yaml: models.{name}"
        of = shape(entry)
        of = of if of.known and _has_just_these_heads(of, entry["checkpoint"]) else None
        if "solution" in entry:
            _check_solution(entry["solution"], stop, of, f"{where}.solution")
        if not of:
            continue
        _check_levels(entry, of, where)
        _check_groups(settings["strategies"], entry, of, where)
        if _most(stop, of) < _step(of):
            raise UserError(
                f"config.yaml: stop: {_said(stop)} ends before the first head of {name} is pruned: a step prunes "
                f"{_step(of)} of its {_total(of)} heads; raise it"
            )


def _has_just_these_heads(of: Shape, checkpoint: dict[str, Any]) -> bool:
    """Whether heads follow from the dimensions: a head map, `prune_by` or another family may have others."""
    path = Path(of.source)
    if path.name != "config.json":
        return True
    config = json.loads(path.read_text(encoding="utf-8"))
    family = families.find(config.get("model_type", ""))
    other = "head_map" in config or "prune_by" in checkpoint.get("from", checkpoint)
    return bool(family) and not other and config.get(family.tied, 1) == 1


def _total(of: Shape) -> int:
    return of.layers * (of.groups or of.heads)


def _step(of: Shape) -> int:
    """Heads that one step prunes: those of tied layers go together."""
    return of.layers if of.tied else 1


def _most(stop: dict[str, Any], of: Shape) -> int:
    """Heads that a trajectory prunes at the most, before accuracy counts."""
    return _step(of) * steps_of({"unit": "heads"}, of, stop)


def _said(stop: dict[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in stop.items() if key != "accuracy_drop")


def _check_solution(wanted: int, stop: dict[str, Any], of: Shape | None, where: str) -> None:
    """Refuse a number of heads that the trajectory does not come by."""
    if "accuracy_drop" in stop and wanted:
        raise UserError(
            f"{where}: {wanted} heads, and `stop: accuracy_drop` in config.yaml may end before them: leave either out"
        )
    if wanted > stop.get("heads", wanted):
        raise UserError(
            f"{where}: {wanted} heads are more than `stop: heads: {stop['heads']}` in config.yaml lets a trajectory "
            "prune; change either"
        )
    if not of:
        return
    if wanted > _total(of):
        raise UserError(f"{where}: {wanted} heads are more than the {_total(of)} that the model has")
    if wanted % _step(of):
        raise UserError(f"{where}: must be a multiple of the {_step(of)} layers that share their heads, got {wanted}")
    if wanted > _most(stop, of):
        raise UserError(
            f"{where}: {wanted} heads are more than `stop: {_said(stop)}` in config.yaml lets a trajectory prune, "
            f"{_most(stop, of)} of {_total(of)}; change either"
        )


def _check_groups(strategies: dict[str, dict], entry: dict[str, Any], of: Shape, where: str) -> None:
    """Refuse groups that do not divide a layer's neurons, and more random levels than there are groups."""
    levels = entry["random"]["levels"]
    for name, strategy in strategies.items():
        if strategy["unit"] == "heads":
            continue
        if of.feed_forward % strategy["group"]:
            raise UserError(
                f"{where}: its {of.feed_forward} neurons a layer are no multiple of neurons.group in config.yaml, "
                f"{strategy['group']}, which {name} prunes by; change that"
            )
        slots = slots_of(strategy, of)
        if "trials" in strategy and levels > slots + 1:
            raise UserError(
                f"{where}.random.levels: {slots} groups of neurons allow {name} at most {slots + 1}, got {levels}; "
                "lower it, or neurons.group in config.yaml"
            )


def _check_levels(entry: dict[str, Any], of: Shape, where: str) -> None:
    levels = entry["random"]["levels"]
    if levels > of.slots + 1:
        raise UserError(f"{where}.random.levels: {of.slots} prunable heads allow at most {of.slots + 1}, got {levels}")
