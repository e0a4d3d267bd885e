"""Accuracy against pruned heads for every strategy (the paper's Figure 3).

Lines are the mean over runs, bands span all runs. Run 0 uses the calibration rows as they
are, further runs bootstrap resamples of them.
"""

from gnorm.figures.style import look, panels
from gnorm.results import Results, curves, over_runs

NEEDS = ("tidy", "heads")


def draw(results: Results, settings: dict):
    tidy = results.tidy()
    names = [name for name, entry in results.strategies.items() if entry["score"] != "random"]
    figure, axes = panels(len(results.models), settings["columns"])
    for axis, (model, title) in zip(axes, results.models.items(), strict=True):
        heads = results.heads(model)["total"]
        for name, (label, colour, line, mark) in look(names).items():
            runs = over_runs(curves(tidy, model, name), "heads_pruned")
            mean = runs.mean()
            every = max(1, len(mean) // 12)
            axis.plot(
                mean.index, mean, color=colour, linestyle=line, marker=mark, markevery=every, ms=4, lw=1.4, label=label
            )
            axis.fill_between(mean.index, runs.min(), runs.max(), color=colour, alpha=0.15, linewidth=0)
        axis.set(title=title, xlabel=f"pruned heads (of {heads})", ylabel="accuracy", xlim=(0, heads), ylim=(0, 1.03))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(5, len(labels)), handlelength=3)
    return figure
