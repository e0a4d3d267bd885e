"""Signed change of one layer's query gradient after pruning one head (the paper's Figure 2).

The gradient of the logits' norm for the first calibration row with respect to one layer's
query weights, after pruning minus before, averaged over squares as wide as a head: rows are
heads, columns blocks of input dimensions. Each panel starts from the unpruned model. Were the
heads independent, everything but the pruned head's own row would be zero.
"""

import matplotlib.pyplot as plt
import numpy as np

from gnorm.results import Results

NEEDS = ("gradients",)


def draw(results: Results, settings: dict):
    shown = {model: results.gradients(model) for model in results.models}
    panels = max(len(g["pruned"]) for g in shown.values())
    figure, axes = plt.subplots(
        panels, len(shown), figsize=(2.7 * len(shown) + 0.3, 2.7 * panels), squeeze=False, layout="constrained"
    )
    for column, (model, stored) in enumerate(shown.items()):
        for row, axis in enumerate(axes[:, column]):
            if row >= len(stored["pruned"]):
                axis.remove()
                continue
            layer, head = stored["pruned"][row]
            change = stored["change"][row]
            limit = np.abs(change).max() or 1.0
            image = axis.pcolormesh(change, cmap="RdBu_r", vmin=-limit, vmax=limit, edgecolors="white", linewidth=0.4)
            axis.set_aspect("equal")
            axis.invert_yaxis()
            axis.grid(False)
            axis.set_xticks([])
            axis.set_yticks(np.arange(change.shape[0]) + 0.5, np.arange(change.shape[0]), fontsize=7)
            axis.tick_params(length=0)
            axis.set_title(
                f"{results.models[model]}, layer {int(stored['layer'])}\nafter pruning ({layer}, {head})", fontsize=8.5
            )
            axis.set(xlabel="input block", ylabel="head" if column == 0 else None)
            bar = figure.colorbar(image, ax=axis, shrink=0.75, aspect=15)
            bar.formatter.set_powerlimits((0, 0))
            bar.ax.tick_params(labelsize=7)
    return figure
