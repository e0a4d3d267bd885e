"""Heads kept (dark) and pruned (light) at the stop point (the paper's Figure 5), run 0.

Rows are layers, columns heads. Tied heads show in every layer that shares them.
"""

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from gnorm.figures.style import BLUE, panels
from gnorm.results import Results

NEEDS = ("heads", "solutions")
PRUNED = "#e8eef4"


def draw(results: Results, settings: dict):
    figure, axes = panels(len(results.models), settings["columns"])
    for axis, (model, title) in zip(axes, results.models.items(), strict=True):
        heads, mask = results.heads(model), results.mask(model)
        layers = np.zeros((heads["layers"], heads["heads"]), dtype=int)
        for row, shared in enumerate(heads["shared"]):
            layers[shared] = mask[row]
        grid(axis, layers)
        axis.set(title=f"{title}: {layers.size - layers.sum()} of {layers.size} pruned", xlabel="head", ylabel="layer")
    figure.legend(
        handles=[Patch(facecolor=BLUE, label="kept"), Patch(facecolor=PRUNED, edgecolor="#999999", label="pruned")],
        loc="outside lower center",
        ncols=2,
    )
    return figure


def grid(axis, mask: np.ndarray) -> None:
    """A mask as squares with white lines between them."""
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
