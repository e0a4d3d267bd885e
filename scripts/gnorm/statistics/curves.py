"""Numbers read off an accuracy curve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnorm.errors import UserError


def counts(slots: int, levels: int) -> list[int]:
    """How many slots are pruned at each level, evenly from none to all."""
    if levels > slots + 1:
        raise UserError(f"random.levels is {levels}, but {slots} prunable slots allow at most {slots + 1}")
    return [round(i * slots / (levels - 1)) for i in range(levels)]


def area(fraction: Sequence[float], accuracy: Sequence[float]) -> float:
    """Area under accuracy over the pruned fraction (trapezoid); NaN unless it runs from 0 to 1."""
    if not np.isclose(fraction[0], 0) or not np.isclose(fraction[-1], 1):
        return float("nan")
    return float(np.trapezoid(accuracy, fraction))


def accuracy_at(fraction: Sequence[float], accuracy: Sequence[float], share: float) -> float:
    """Accuracy with `share` of the heads pruned, between two steps linearly; NaN past the end."""
    if share > fraction[-1] + 1e-12:
        return float("nan")
    return float(np.interp(share, fraction, accuracy))


def stop_point(accuracy: Sequence[float], all_pruned: float, tolerance: float) -> int:
    """The last step whose accuracy is at least a0 - tolerance * (a0 - aN); rebounds count.

    aN is the accuracy with all heads pruned, which a trajectory that ends early does not reach.
    """
    threshold = min(accuracy[0], accuracy[0] - tolerance * (accuracy[0] - all_pruned))  # no head may be worth anything
    # The threshold is rounded: an accuracy equal to it must not fall below by an ulp.
    return max(step for step, value in enumerate(accuracy) if value >= threshold - 1e-12)


def megabytes(parameters: int) -> float:
    """Size of float32 parameters, as the paper counts it."""
    return parameters * 4 / 2**20


def wilson(share: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """The 95% interval of a share found in `count` trials."""
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return float(middle - half), float(middle + half)
