"""Signed change of one layer's query gradient after pruning one head (the paper's Figure 2).

The gradient of the logits' norm for the first calibration row with respect to one layer's
query weights, after pruning minus before, averaged over squares as wide as a head: rows are
heads, columns blocks of input dimensions. Each panel starts from the unpruned model. Were the
heads independent, everything but the pruned head's own row would be zero.
"""

import matplotlib.pyplot as plt
import numpy as np

from gnorm.statistics.results import Results

NEEDS = ("gradients",)


def draw(results: Results, settings: dict):
    shown = {model: results.gradients(model) for model in results.models}
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)  # of models; each has one panel per pruned head, below each other
    panels = max(len(stored["pruned"]) for stored in shown.values())
    figure, axes = plt.subplots(
        rows * panels,
        columns,
        figsize=(2.7 * columns + 0.3, 2.7 * rows * panels),
        squeeze=False,
        layout="constrained",
    )
    unused = set(axes.flat)
    for place, (model, stored) in enumerate(shown.items()):
        for panel, (slot, change) in enumerate(zip(stored["pruned"], stored["change"], strict=True)):
            axis = axes[place // columns * panels + panel, place % columns]
            unused.discard(axis)
            heat_map(figure, axis, change)
            axis.set_title(
                f"{results.models[model]}, layer {int(stored['layer'])}\nafter pruning ({slot[0]}, {slot[1]})",
                fontsize=8.5,
            )
            axis.set(xlabel="input block", ylabel="head" if place % columns == 0 else None)
    for axis in unused:
        axis.remove()
    return figure


def heat_map(figure, axis, change: np.ndarray) -> None:
    """Draw signed values, with white for zero."""
    limit = np.abs(change).max() or 1.0
    image = axis.pcolormesh(change, cmap="RdBu_r", vmin=-limit, vmax=limit, edgecolors="white", linewidth=0.4)
    axis.set_aspect("equal")
    axis.invert_yaxis()
    axis.grid(False)
    axis.set_xticks([])
    axis.set_yticks(np.arange(change.shape[0]) + 0.5, np.arange(change.shape[0]), fontsize=7)
    axis.tick_params(length=0)
    bar = figure.colorbar(image, ax=axis, shrink=0.75, aspect=15)
    bar.formatter.set_powerlimits((0, 0))
    bar.ax.tick_params(labelsize=7)
