"""Quality as heads go: against pruned heads and, where speed was measured, against tokens a second.

The first metric that the configuration lists beside accuracy: macro-F1 of classifiers, perplexity of language models
on a logarithmic axis. Against pruned heads the mean over runs (of random pruning over trials) with bands that span
them; against speed run 0 at the levels of random pruning, with a ring around the unpruned model.
"""

from matplotlib.ticker import LogFormatter, MaxNLocator

from gnorm.figures.style import band, legend, look, panels
from gnorm.metrics import METRICS, at_steps, title
from gnorm.results import Results, curves, over_runs, total_heads

NEEDS = ("tidy", "speeds")


def draw(results: Results, settings: dict):
    tidy, looks = results.tidy(), look(list(results.strategies))
    speeds = {model: results.speeds(model) for model in results.models}
    kinds = [(model, False) for model in results.models]
    kinds += [(model, True) for model, found in speeds.items() if found is not None]
    kinds.sort(key=lambda kind: list(results.models).index(kind[0]))
    figure, axes = panels(len(kinds), settings["columns"])
    for axis, (model, against_speed) in zip(axes, kinds, strict=True):
        task = settings["tasks"][model]
        metric = next(iter(at_steps(settings["metrics"][task])), "accuracy")
        own = {name: found for name in looks if (found := curves(tidy, model, name))}
        (by_speed if against_speed else by_heads)(axis, own, metric, looks, speeds[model])
        heads = total_heads(tidy, model)
        axis.set(title=results.models[model], ylabel=title(metric, task))
        axis.set(xlabel="tokens a second" if against_speed else f"pruned heads (of {heads})")
        if METRICS[metric].log:
            axis.set_yscale("log")
            for which in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
                which(LogFormatter(minor_thresholds=(2, 0.5)))  # plain numbers, fewer over a wide range
    legend(figure, axes)
    return figure


def by_heads(axis, own, metric, looks, _speeds) -> None:
    for name, found in own.items():
        band(axis, over_runs(found, "heads_pruned", metric), looks[name])


def by_speed(axis, own, metric, looks, speeds) -> None:
    for name, measured in speeds.groupby("strategy", sort=False):
        label, colour, line, mark = looks[name]
        quality = own[name][0].set_index("heads_pruned")[metric].reindex(measured["heads_pruned"])
        axis.plot(
            measured["tokens_per_second"], quality, color=colour, linestyle=line, marker=mark, ms=4, lw=1, label=label
        )
        axis.plot(measured["tokens_per_second"].iloc[0], quality.iloc[0], "o", color="black", mfc="none", ms=9)
    axis.xaxis.set_major_locator(MaxNLocator(5))  # long numbers
