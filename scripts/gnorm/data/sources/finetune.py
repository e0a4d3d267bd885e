"""Checkpoints fine-tuned here from a pretrained model, which has its own source."""

from __future__ import annotations

from gnorm.errors import UserError


def check(entry: dict, model: dict, where: str) -> None:
    if model["task"] == "language_model":
        conflict = "goes with task: classification; take local, hub, package or train"
        raise UserError(f"{where}.source: {entry['source']!r} {conflict}")
    check_rows(model, where.removesuffix(".checkpoint"))


def check_rows(model: dict, where: str) -> None:
    """Check that a model that is trained here has rows for it, with classes."""
    if model["dataset"].get("classes") == "model":
        raise UserError(f"{where}.dataset.classes: `model` goes with a checkpoint that exists; list the label values")
    if not model["rows"]["train"]:
        raise UserError(f"{where}.rows.train: must be above 0 to train the checkpoint")
