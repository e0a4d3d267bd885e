"""How far two scores agree on an order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def kendall_tau(first: Sequence[float], second: Sequence[float]) -> float:
    """1 if both order the same things alike, -1 if oppositely; a tie in either counts 0 (tau-a)."""
    a, b = (np.sign(np.subtract.outer(np.asarray(x), np.asarray(x))) for x in (first, second))
    pairs = len(first) * (len(first) - 1)
    return float((a * b).sum() / pairs) if pairs else 1.0
