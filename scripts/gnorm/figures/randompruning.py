"""Random pruning as box plots, the Greedy-Gnorm curve, and the unpruned accuracy (the paper's Figure 4).

A box spans the middle half of the random trials at its level, whiskers reach 1.5 times as far,
dots are trials beyond. The curve is the mean over runs, its band spans them.
"""

from gnorm.engine.metrics import title as metric_title
from gnorm.figures.style import BLACK, ORANGE, look, panels
from gnorm.statistics.results import Results, curves, over_runs

NEEDS = ("tidy",)
SHOWN = ("columns", "strategy", "tasks")
ONLY = "published_random"
PUBLISHED = "RandomPruning"


def draw(results: Results, settings: dict):
    tidy = results.tidy()
    names = [name for name, entry in results.strategies.items() if entry["drawn"]]
    ranked = settings["strategy"]
    label, colour, line, mark = look([ranked])[ranked]
    figure, axes = panels(len(results.models), settings["columns"])
    for axis, (model, title) in zip(axes, results.models.items(), strict=True):
        trials = tidy[(tidy["model"] == model) & tidy["strategy"].isin(names)]
        count = trials.groupby(["strategy", "run", "trial"], dropna=False).ngroups
        levels = [(100 * level, group["accuracy"]) for level, group in trials.groupby("fraction_pruned")]
        if levels:
            width = 0.55 * 100 / max(1, len(levels) - 1)
            axis.boxplot(
                [values for _, values in levels],
                positions=[level for level, _ in levels],
                widths=width,
                manage_ticks=False,
                patch_artist=True,
                boxprops={"facecolor": "#dddddd", "edgecolor": "#777777", "linewidth": 0.8},
                medianprops={"color": BLACK, "linewidth": 1.2},
                whiskerprops={"color": "#777777", "linewidth": 0.8},
                capprops={"color": "#777777", "linewidth": 0.8},
                flierprops={"marker": ".", "markersize": 3, "markeredgecolor": "#777777"},
            )
        if runs := curves(tidy, model, ranked):
            spread = over_runs(runs, "fraction_pruned")
            x, mean = [100 * f for f in spread.mean().index], spread.mean()
            every = max(1, len(x) // 12)
            axis.plot(x, mean, color=colour, linestyle=line, marker=mark, markevery=every, ms=4, label=label)
            axis.fill_between(x, spread.min(), spread.max(), color=colour, alpha=0.2, linewidth=0)
            axis.axhline(mean.iloc[0], color=ORANGE, linestyle="--", lw=1.2, label="unpruned")
        axis.plot([], [], "s", color="#dddddd", markeredgecolor="#777777", label=f"random ({count})")
        quality = metric_title("accuracy", settings["tasks"].get(model, "classification"))
        axis.set(title=title, xlabel="pruned heads (%)", ylabel=quality, xlim=(-4, 104), ylim=(0, 1.03))
        axis.legend(loc="lower left", fontsize=8)
    return figure
