"""Intake of a model that a suite trains or brings: finds its heads and checks that the suite may use it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from torch import nn

from gnorm import families
from gnorm.errors import UserError
from gnorm.logs import log
from gnorm.models import folders
from gnorm.models.heads import HeadMap, head_map, keep


def take(model: nn.Module, entry: Mapping[str, Any], attention: str = "") -> HeadMap:
    """Find the heads of an unpruned model; a map that no family provides is kept in its configuration.

    `entry` is the suite's; `attention` names the settings that need attention weights.
    """
    unit = entry.get("prune_by")
    if unit:
        model.config.prune_by = unit  # kept in the configuration, where every job reads it
    with folders.explained("the model cannot be run"):
        if "path" in entry and families.find(model.config.model_type):  # the heads of others are found by running them
            importlib.import_module("gnorm.models.search").run(model)
        heads = heads_of(model, attention)
    if unit:
        check_unit(heads, unit)
    return heads


def heads_of(model: nn.Module, attention: str = "") -> HeadMap:
    """Get a model's head map; a map that came with it, or that a search finds, is checked and kept.

    Every known family gives attention weights.
    """
    given = getattr(model.config, "head_map", None)
    if not given and families.find(model.config.model_type):
        return head_map(model)
    # Loaded by name: only a checkpoint from outside can need it, and training must not depend on it.
    search = importlib.import_module("gnorm.models.search")
    heads = search.confirm(model, head_map(model)) if given else search.find(model)
    if attention and not search.gives_attention(model, heads):
        raise UserError(
            f"{heads.blocks[0].attention} gives no attention weights with output_attentions, and config.yaml or the "
            f"suite has criteria that need them: leave out {attention}, or take others for them "
            "(`compare` may be a list in config.yaml)"
        )
    keep(model, heads)
    return heads


def check_unit(heads: HeadMap, unit: str) -> None:
    """Refuse a `prune_by` of the suite that differs from the map's."""
    if heads.queries == heads.share == 1:
        log.warning("prune_by: %s has no effect: every query head has a K and V of its own", unit)
    elif unit != (kept := "group" if heads.queries > 1 else "query"):
        raise UserError(f"prune_by: {unit} of the suite is not the {kept} of head_map in config.json: change either")


def summary(heads: HeadMap) -> dict[str, Any]:
    """Summarize a head map in numbers."""
    return {
        "layers": heads.layers,
        "heads": heads.heads,
        "width": heads.width,
        "total": heads.total,
        "shared": [list(block.layers) for block in heads.blocks],
    }
