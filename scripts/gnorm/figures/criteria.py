"""How alike the criteria rank the heads, and how well their orders prune.

Spearman's correlation between the orders in which two criteria prune, of scores taken once on the unpruned
model (run 0); beside each name the area under the accuracy curve of its order, the best in bold.
"""

import numpy as np

from gnorm.figures.style import panels
from gnorm.statistics.curves import area
from gnorm.statistics.results import Results, importance

NEEDS = ("criteria",)
SHOWN = ("columns",)


def draw(results: Results, settings: dict):
    rankings = {model: importance(results.scores(model)) for model in results.models}
    count = max(ranks.shape[1] for ranks in rankings.values())
    figure, axes = panels(len(rankings), settings["columns"], height=max(2.6, 0.9 + 0.36 * count))
    figure.set_figwidth(max(figure.get_figwidth(), (2.2 + 0.42 * count) * min(settings["columns"], len(rankings))))
    for axis, (model, ranks) in zip(axes, rankings.items(), strict=True):
        image = heat_map(axis, ranks.corr(), areas(results.score_curves(model)))
        axis.set_title(results.models[model])
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=30)
    bar.set_label("Spearman's correlation")
    return figure


def areas(curves) -> dict[str, float]:
    first = curves[curves["run"] == 0]
    return {
        name: area(curve["fraction_pruned"].tolist(), curve["accuracy"].tolist())
        for name, curve in first.groupby("criterion")
    }


def heat_map(axis, correlation, reached: dict[str, float]):
    names, values = list(correlation), correlation.to_numpy()
    image = axis.pcolormesh(values, cmap="RdBu_r", vmin=-1, vmax=1, edgecolors="white", linewidth=0.6)
    for (i, j), value in np.ndenumerate(values):
        colour = "white" if abs(value) > 0.7 else "black"
        axis.text(j + 0.5, i + 0.5, f"{value:.2f}", ha="center", va="center", fontsize=6.5, color=colour)
    places = np.arange(len(names)) + 0.5
    axis.set_xticks(places, names, fontsize=7, rotation=45, ha="right", rotation_mode="anchor")
    axis.set_yticks(places, [f"{name}  {reached[name]:.3f}" for name in names], fontsize=7)
    best = max(reached.values())
    for label, name in zip(axis.get_yticklabels(), names, strict=True):
        label.set_fontweight("bold" if reached[name] == best else "normal")
    axis.set_aspect("equal")
    axis.invert_yaxis()
    axis.grid(False)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    return image
