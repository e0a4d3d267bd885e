"""Tied heads (the paper's Figure 1): one mask slot switches the same head in every layer that shares it.

Above the slots of a model with tied layers at the stop point, below them the heads they switch.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import ConnectionPatch, Patch

from gnorm.figures.allfinalsolutions import PRUNED, grid
from gnorm.figures.style import BLUE
from gnorm.results import Results

NEEDS = ("heads", "solutions")


def draw(results: Results, settings: dict):
    tied = [m for m in results.models if any(len(shared) > 1 for shared in results.heads(m)["shared"])]
    if not tied:
        figure, axis = plt.subplots(figsize=(5, 1.2), layout="constrained")
        axis.text(0.5, 0.5, "No model of this suite ties its heads.", ha="center", va="center")
        axis.axis("off")
        return figure
    sizes = [results.heads(m) for m in tied]
    ratio = max(h["layers"] / len(h["shared"]) for h in sizes)
    figure, axes = plt.subplots(
        2,
        len(tied),
        figsize=(4.4 * len(tied), 1.6 + 0.32 * max(h["layers"] for h in sizes) + 0.5),
        squeeze=False,
        height_ratios=[1, ratio],
        layout="constrained",
    )
    for column, (model, heads) in enumerate(zip(tied, sizes, strict=True)):
        mask = results.mask(model)
        layers = np.zeros((heads["layers"], heads["heads"]), dtype=int)
        for row, shared in enumerate(heads["shared"]):
            layers[shared] = mask[row]
        above, below = axes[:, column]
        grid(above, mask)
        grid(below, layers)
        above.xaxis.tick_top()
        above.tick_params(length=0)
        above.set(title=f"{results.models[model]}: {mask.size} slots switch {layers.size} heads", ylabel="slots")
        below.set(xlabel="head", ylabel="layer")
        for head in np.flatnonzero(mask[-1] == 0):
            x = head + 0.5
            figure.add_artist(
                ConnectionPatch(
                    (x, mask.shape[0]),
                    (x, 0),
                    "data",
                    "data",
                    axesA=above,
                    axesB=below,
                    arrowstyle="-|>",
                    color="#777777",
                    linewidth=0.8,
                )
            )
    figure.legend(
        handles=[Patch(facecolor=BLUE, label="kept"), Patch(facecolor=PRUNED, edgecolor="#999999", label="pruned")],
        loc="outside lower center",
        ncols=2,
    )
    return figure
