"""Accuracy against pruned heads for every strategy (the paper's Figure 3).

Lines are the mean over runs, bands span all runs. Run 0 uses the calibration rows as they
are, further runs bootstrap resamples of them.
"""

from gnorm.engine.metrics import title as metric_title
from gnorm.figures.style import band, legend, look, panels
from gnorm.statistics.results import Results, curves, over_runs, total_heads

NEEDS = ("tidy",)
SHOWN = ("columns", "tasks")
PUBLISHED = "PruningResults"


def draw(results: Results, settings: dict):
    return drawn(results, settings, [name for name, entry in results.strategies.items() if not entry["drawn"]])


def drawn(results: Results, settings: dict, names: list[str], what: str = "heads"):
    tidy = results.tidy()
    figure, axes = panels(len(results.models), settings["columns"])
    for axis, (model, title) in zip(axes, results.models.items(), strict=True):
        total = total_heads(tidy, model)
        for name, style in look(names).items():
            if runs := curves(tidy, model, name):  # not all are published
                band(axis, over_runs(runs, "heads_pruned"), style)
        quality = metric_title("accuracy", settings["tasks"].get(model, "classification"))
        axis.set(title=title, xlabel=f"pruned {what} (of {total})", ylabel=quality, xlim=(0, total), ylim=(0, 1.03))
    legend(figure, axes, [label for label, *_ in look(names).values()])
    return figure
