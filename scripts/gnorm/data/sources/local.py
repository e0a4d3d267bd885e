"""Models in a folder on this machine, as `save_pretrained` writes them."""

from __future__ import annotations

from pathlib import Path

from gnorm.errors import UserError


def check(entry: dict, model: dict, where: str) -> None:
    if not entry["path"] or not entry["path"].isprintable():
        raise UserError(f"{where}.path: {entry['path']!r} is no path")
    if not Path(entry["path"], "config.json").is_file():
        defect = "holds no model saved by save_pretrained (config.json is missing)"
        raise UserError(f"{where}.path: {entry['path']} {defect}")


def inputs(entry: dict) -> list[str]:
    """List every file in the folder."""
    return sorted(str(path) for path in Path(entry["path"]).rglob("*") if path.is_file())
