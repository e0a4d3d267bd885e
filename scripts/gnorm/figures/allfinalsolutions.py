"""Heads kept (dark) and pruned (light) at the stop point (the paper's Figure 5), run 0.

Rows are layers, columns heads. Tied heads show in every layer that shares them.
"""

from gnorm.figures.masks import grid, legend, per_layer
from gnorm.figures.style import panels
from gnorm.statistics.results import Results

NEEDS = ("heads", "solutions")
SHOWN = ("columns",)


def draw(results: Results, settings: dict):
    figure, axes = panels(len(results.models), settings["columns"], height=2.2)
    for axis, (model, title) in zip(axes, results.models.items(), strict=True):
        layers = per_layer(results.mask(model), results.heads(model))
        grid(axis, layers)
        axis.set(title=f"{title}: {layers.size - layers.sum()} of {layers.size} pruned", xlabel="head", ylabel="layer")
    legend(figure)
    return figure
