"""What a model is made of: parameters and megabytes of its modules."""

from __future__ import annotations

from torch import nn

from gnorm.heads import HeadMap

MEGABYTE = 2**20


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def modules(model: nn.Module) -> list[tuple[str, int, int]]:
    """(name, depth, parameters) of the model, its backbone and head, and their parts."""
    prefix = model.base_model_prefix
    rows = [("model", 0, count(model))]
    for name, child in model.named_children():
        if not count(child):
            continue
        rows.append((name, 1, count(child)))
        parts = [(part, count(grandchild)) for part, grandchild in child.named_children()]
        if name != prefix and not parts:
            parts = [(part, parameter.numel()) for part, parameter in child.named_parameters(recurse=False)]
        rows += [(f"{name}.{part}", 2, size) for part, size in parts if size]
    return rows


def per_slot(model: nn.Module, heads: HeadMap) -> int:
    """Parameters that leave with one slot: its rows of Q, K, V with biases, its columns of O."""
    return heads.width * (4 * model.config.hidden_size + 3)
