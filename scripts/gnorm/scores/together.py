"""Several criteria at once: they share passes where they can, and hybrids run last."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import ModuleType

import torch
from torch import nn

from gnorm import scores
from gnorm.engine.batches import Batch
from gnorm.engine.passes import Reading, Seen, read
from gnorm.models.slots import SlotMap


def _reading(criterion: ModuleType, settings: dict) -> Reading | None:
    return criterion.reading(**settings) if hasattr(criterion, "reading") else None


def of_all(
    model: nn.Module,
    heads: SlotMap,
    batches: list[Batch],
    wanted: Mapping[str, dict],
    seed: int = 0,
    seen: Seen | None = None,
    errors: dict[str, torch.Tensor] | None = None,
    taken: Mapping[str, tuple[dict, torch.Tensor]] | None = None,
) -> dict[str, torch.Tensor]:
    """Compute the scores of several criteria with their settings; criteria that can share a pass do.

    A criterion made of others runs last. It gets their scores, and the scores that were `taken` before of this model on
    these rows, with their settings.
    """
    criteria = {name: scores.load(name) for name in wanted}
    readings = {name: reading for name, c in criteria.items() if (reading := _reading(c, wanted[name]))}
    scored = read(model, heads, batches, readings, seen)
    offered = {"seed": seed, "seen": seen, "errors": errors}
    for name in sorted(wanted, key=lambda name: scores.describe(name).takes("taken")):
        if name not in readings:
            offered["taken"] = {**(taken or {}), **{other: (wanted[other], score) for other, score in scored.items()}}
            own = {key: value for key, value in offered.items() if scores.describe(name).takes(key)}
            scored[name] = criteria[name].score(model, heads, batches, **{**own, **wanted[name]})
    return {name: scored[name] for name in wanted}


def cost_of_all(model: nn.Module, heads: SlotMap, wanted: Mapping[str, dict]) -> tuple[int, int]:
    """How often each row goes forward and backward for the scores of several criteria."""
    kept = heads.kept(model)
    layers = sum(len(block.layers) for block, still in zip(heads.blocks, kept, strict=True) if still.any())
    costs, shared = [], set()
    for name, settings in wanted.items():
        criterion = scores.load(name)
        if scores.describe(name).made_of_others:
            members = {member: settings.get("members", {}).get(member, {}) for member in settings["of"]}
            untaken = {member: own for member, own in members.items() if wanted.get(member) != own}
            costs.append(cost_of_all(model, heads, untaken))
        elif reading := _reading(criterion, settings):
            shared.add(reading.shares)
        else:
            defaults = inspect.signature(criterion.score).parameters.items()
            known = {key: parameter.default for key, parameter in defaults} | settings
            costs.append(scores.describe(name).passes(known, int(kept.sum()), layers))
    return tuple(len(shared) + sum(each) for each in zip((0, 0), *costs, strict=True))
