"""Tied heads (the paper's Figure 1): one mask slot switches the same head in every layer that shares it.

Above the slots of a model with tied layers at the stop point, below them the heads they switch.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import ConnectionPatch

from gnorm.figures.masks import grid, legend, per_layer
from gnorm.statistics.results import Results

NEEDS = ("heads", "solutions")
SHOWN = ("columns",)
ONLY = "tied"


def draw(results: Results, settings: dict):
    heads = {model: results.heads(model) for model in results.models}
    tied = [model for model in heads if any(len(shared) > 1 for shared in heads[model]["shared"])]
    if not tied:
        figure, axis = plt.subplots(figsize=(5, 1.2), layout="constrained")
        axis.text(0.5, 0.5, "No model of this suite ties its heads.", ha="center", va="center")
        axis.axis("off")
        return figure
    columns = min(settings["columns"], len(tied))
    rows = -(-len(tied) // columns)
    layers = max(heads[model]["layers"] for model in tied)
    slots = max(len(heads[model]["shared"]) for model in tied)
    height = 1.6 + 0.32 * (layers + slots)
    figure, axes = plt.subplots(
        2 * rows,
        columns,
        figsize=(4.4 * columns, height * rows + 0.4),
        squeeze=False,
        height_ratios=[slots, layers] * rows,
        layout="constrained",
    )
    for place in range(rows * columns):
        above, below = axes[2 * (place // columns) : 2 * (place // columns) + 2, place % columns]
        if place >= len(tied):
            above.remove()
            below.remove()
            continue
        model = tied[place]
        mask = results.mask(model)
        full = per_layer(mask, heads[model])
        grid(above, mask)
        grid(below, full)
        above.xaxis.tick_top()
        above.tick_params(length=0)
        above.set(title=f"{results.models[model]}: {mask.size} slots switch {full.size} heads", ylabel="slots")
        below.set(xlabel="head", ylabel="layer")
        for head in np.flatnonzero(mask[-1] == 0) + 0.5:
            start, end = (head, mask.shape[0]), (head, 0)
            arrow = ConnectionPatch(
                start, end, "data", "data", axesA=above, axesB=below, arrowstyle="-|>", color="#777777"
            )
            figure.add_artist(arrow)
    legend(figure)
    return figure
