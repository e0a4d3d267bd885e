"""Checkpoints trained here from scratch, with the suite's family and sizes."""

from __future__ import annotations

from gnorm import families
from gnorm.data.sources.finetune import check_rows
from gnorm.errors import UserError, unknown


def check(entry: dict, model: dict, where: str) -> None:
    if entry["family"] not in families.trainable():
        raise UserError(f"{where}.family: there is no {unknown(entry['family'], families.trainable(), 'family')}")
    family = families.load(entry["family"])
    if family.decoder != (model["task"] == "language_model"):
        task = "language_model" if family.decoder else "classification"
        raise UserError(f"{where}.family: {family.name!r} goes with task: {task}")
    check_rows(model, where.removesuffix(".checkpoint"))
    heads, width = entry["heads"], entry["width"]
    if width % heads:
        raise UserError(f"{where}.heads: must divide the width {width}, got {heads}")
    if family.rotary and width // heads % 2:
        problem = f"{heads} heads have {width // heads} columns each, and {family.name} turns them in pairs"
        raise UserError(f"{where}.width: {problem}: take an even number")
    groups = entry.get("key_heads", heads)
    if groups != heads and (not family.grouped or heads % groups):
        able = ", ".join(name for name in families.trainable() if families.load(name).grouped)
        raise UserError(f"{where}.key_heads: goes with {able} and must divide the {heads} heads, got {groups}")
    levels, a_layer = model["random"]["levels"], heads if entry.get("prune_by") == "query" else groups
    slots = a_layer * (1 if family.tied else entry["layers"])
    if levels > slots + 1:
        where = where.removesuffix(".checkpoint")
        raise UserError(f"{where}.random.levels: {slots} prunable heads allow at most {slots + 1}, got {levels}")
