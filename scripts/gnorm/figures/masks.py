"""Masks as squares: dark for kept, light for pruned."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gnorm.figures.style import BLUE

PRUNED = "#e8eef4"


def per_layer(slots: np.ndarray, heads: dict) -> np.ndarray:
    """Turn a mask of slots into layers x heads: tied heads show in every layer that shares them."""
    layers = np.zeros((heads["layers"], heads["heads"]), dtype=int)
    for row, shared in enumerate(heads["shared"]):
        layers[shared] = slots[row]
    return layers


def grid(axis: Axes, mask: np.ndarray) -> None:
    """Draw a mask as squares with white lines between them."""
    axis.pcolormesh(mask, cmap=ListedColormap([PRUNED, BLUE]), vmin=0, vmax=1, edgecolors="white", linewidth=1)
    axis.set_aspect("equal")
    axis.invert_yaxis()
    axis.grid(False)
    for ticks, labels, size in (
        (axis.set_xticks, axis.set_xticklabels, mask.shape[1]),
        (axis.set_yticks, axis.set_yticklabels, mask.shape[0]),
    ):
        shown = np.arange(0, size, max(1, size // 12))
        ticks(shown + 0.5)
        labels(shown)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def legend(figure: Figure) -> None:
    kept, pruned = Patch(facecolor=BLUE, label="kept"), Patch(facecolor=PRUNED, edgecolor="#999999", label="pruned")
    figure.legend(handles=[kept, pruned], loc="outside lower center", ncols=2)
