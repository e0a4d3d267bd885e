"""Accuracy against pruned heads for every strategy (the paper's Figure 3).

Lines are the mean over runs, bands span all runs. Run 0 uses the calibration rows as they
are, further runs bootstrap resamples of them.
"""

from gnorm.figures.style import look, panels
from gnorm.metrics import title as metric_title
from gnorm.results import Results, curves, over_runs, total_heads

NEEDS = ("tidy",)


def draw(results: Results, settings: dict):
    tidy = results.tidy()
    names = [name for name, entry in results.strategies.items() if entry["score"] != "random"]
    figure, axes = panels(len(results.models), settings["columns"])
    for axis, (model, title) in zip(axes, results.models.items(), strict=True):
        heads = total_heads(tidy, model)
        for name, (label, colour, line, mark) in look(names).items():
            if not (found := curves(tidy, model, name)):
                continue  # not published
            runs = over_runs(found, "heads_pruned")
            mean = runs.mean()
            every = max(1, len(mean) // 12)
            axis.plot(
                mean.index, mean, color=colour, linestyle=line, marker=mark, markevery=every, ms=4, lw=1.4, label=label
            )
            axis.fill_between(mean.index, runs.min(), runs.max(), color=colour, alpha=0.15, linewidth=0)
        quality = metric_title("accuracy", settings["tasks"].get(model, "classification"))
        axis.set(title=title, xlabel=f"pruned heads (of {heads})", ylabel=quality, xlim=(0, heads), ylim=(0, 1.03))
    handles = {}
    for axis in axes:
        handles |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    labels = [label for label, *_ in look(names).values() if label in handles]
    figure.legend(
        [handles[label] for label in labels],
        labels,
        loc="outside lower center",
        ncols=min(5, len(labels)),
        handlelength=3,
    )
    return figure
