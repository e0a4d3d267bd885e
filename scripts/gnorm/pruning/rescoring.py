"""When a trajectory takes scores (at every step, every so many steps, or once) and where it ends at the latest.

Imports no torch, for planning.
"""

from __future__ import annotations

EVERY = {"every_step": 1, "never": None}  # or a number of steps


def due(rescore: str | int, step: int) -> bool:
    """Whether scores are taken again after a step; before the first they always are."""
    every = EVERY.get(rescore, rescore)
    return every is not None and step % every == 0


def once(rescore: str | int) -> bool:
    """Whether the unpruned model's scores are all there are."""
    return EVERY.get(rescore, rescore) is None


def rounds(rescore: str | int, steps: int) -> int:
    """How often a trajectory of so many steps takes scores."""
    return min(steps, 1 + sum(due(rescore, step) for step in range(1, steps)))


def most(total: int, heads: int | None = None, fraction: float | None = None) -> int:
    """How many of `total` heads a trajectory may prune, at most `heads` and at most that share of them."""
    limits = [total, heads, None if fraction is None else int(fraction * total + 1e-9)]  # 0.29 * 100 is less, by an ulp
    return min(limit for limit in limits if limit is not None)
