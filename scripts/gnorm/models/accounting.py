"""The number of parameters of a model's modules."""

from __future__ import annotations

from torch import nn


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def modules(model: nn.Module) -> list[tuple[str, int, int]]:
    """List (name, depth, parameters) of the model, its backbone and head, and their parts.

    A head that is tied to the embeddings has no parameters of its own and is left out. The backbone comes first,
    though some versions of transformers define a head before it.
    """
    prefix, seen = model.base_model_prefix, set()
    rows = [("model", 0, count(model))]
    for name, child in sorted(model.named_children(), key=lambda named: named[0] != prefix):
        own = {id(p): p.numel() for p in child.parameters() if id(p) not in seen}
        seen |= own.keys()
        if not own:
            continue
        rows.append((name, 1, sum(own.values())))
        parts = [(part, count(grandchild)) for part, grandchild in child.named_children()]
        if name != prefix and not parts:
            parts = [(part, parameter.numel()) for part, parameter in child.named_parameters(recurse=False)]
        rows += [(f"{name}.{part}", 2, size) for part, size in parts if size]
    return rows
