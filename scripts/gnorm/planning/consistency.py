"""Settings that each make sense and together cannot work, as far as a model's dimensions are known beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gnorm import families
from gnorm.errors import UserError
from gnorm.planning.shapes import Shape, shape, slots_of
from gnorm.pruning import limits
from gnorm.pruning.limits import Size
from gnorm.settings.suites import AT_LEVELS


def check(settings: dict[str, Any]) -> None:
    """Raise a `UserError` about settings of a loaded configuration that contradict each other."""
    stop = settings["stop"]
    for name, entry in settings["models"].items():
        where = f"suites/{settings['suite']}.yaml: models.{name}"
        of = shape(entry)
        _check_room(entry, of, settings["generation"], where)
        of = of if of.known and _has_just_these_heads(of, entry["checkpoint"]) else None
        size = Size(of.layers * (of.groups or of.heads), of.layers if of.tied else 1, of.slots) if of else None
        if "solution" in entry:
            limits.check_solution(entry["solution"], stop, size, f"{where}.solution")
        if of:
            limits.check_levels(entry["random"]["levels"], size, f"{where}.random.levels")
            _check_groups(settings["strategies"], stop, entry, of, name, where)
            limits.check_stop(stop, size, f"head of {name}")


def _has_just_these_heads(of: Shape, checkpoint: dict[str, Any]) -> bool:
    """Whether heads follow from the dimensions: a head map, `prune_by` or another family may have others."""
    path = Path(of.source)
    if path.name != "config.json":
        return True
    config = json.loads(path.read_text(encoding="utf-8"))
    family = families.find(config.get("model_type", ""))
    other = "head_map" in config or "prune_by" in checkpoint.get("from", checkpoint)
    return bool(family) and not other and config.get(family.tied, 1) == 1


def _check_room(entry: dict[str, Any], of: Shape, generation: dict[str, int], where: str) -> None:
    """Refuse prompts that leave a model that writes no room; of what a download has room for, its checkpoint says."""
    writes = entry["task"] == "language_model" and {*entry["metrics"]} & {*AT_LEVELS}
    here = "length" in entry["checkpoint"] or Path(of.source).name == "config.json"
    if writes and here and of.positions <= generation["prompt_tokens"]:
        key = next((key for key in ("length", "from") if key in entry["checkpoint"]), "path")
        raise UserError(
            f"{where}.checkpoint.{key}: {of.positions} positions leave none to write in after a prompt of "
            f"generation.prompt_tokens, {generation['prompt_tokens']}; change either"
        )


def _check_groups(
    strategies: dict[str, dict], stop: dict[str, Any], entry: dict[str, Any], of: Shape, model: str, where: str
) -> None:
    """Refuse groups that do not divide a layer's neurons, and ends and random levels that do not fit their number."""
    levels = entry["random"]["levels"]
    for name, strategy in strategies.items():
        if strategy["unit"] == "heads":
            continue
        if of.feed_forward % strategy["group"]:
            raise UserError(
                f"{where}: its {of.feed_forward} neurons a layer are no multiple of neurons.group in config.yaml, "
                f"{strategy['group']}, which {name} prunes by; change that"
            )
        slots, layers = slots_of(strategy, of), of.layers if of.tied else 1
        if "trials" not in strategy:
            size = Size(slots * layers, layers, slots)
            limits.check_stop(stop, size, f"group of {strategy['group']} neurons of {model} (strategy {name})")
        if "trials" in strategy and levels > slots + 1:
            raise UserError(
                f"{where}.random.levels: {slots} groups of neurons allow {name} at most {slots + 1}, got {levels}; "
                "lower it, or neurons.group in config.yaml"
            )
