"""Quality as heads go: against pruned heads and, where speed was measured, against tokens a second.

The first metric that the configuration lists beside accuracy: macro-F1 of classifiers, perplexity of language models
on a logarithmic axis. Against pruned heads the mean over runs (of random pruning over trials) with bands that span
them; against speed run 0 at the levels of random pruning, with a ring around the unpruned model.
"""

from matplotlib.ticker import LogFormatter

from gnorm.figures.style import look, panels
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
    handles = {}
    for axis in axes:
        handles |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=min(6, len(handles)), handlelength=3
    )
    return figure


def by_heads(axis, own, metric, looks, _speeds) -> None:
    for name, found in own.items():
        label, colour, line, mark = looks[name]
        runs = over_runs(found, "heads_pruned", metric)
        mean = runs.mean()
        every = max(1, len(mean) // 12)
        axis.plot(
            mean.index, mean, color=colour, linestyle=line, marker=mark, markevery=every, ms=4, lw=1.4, label=label
        )
        axis.fill_between(mean.index, runs.min(), runs.max(), color=colour, alpha=0.15, linewidth=0)


def by_speed(axis, own, metric, looks, speeds) -> None:
    for name, measured in speeds.groupby("strategy", sort=False):
        label, colour, line, mark = looks[name]
        quality = own[name][0].set_index("heads_pruned")[metric].reindex(measured["heads_pruned"])
        axis.plot(
            measured["tokens_per_second"], quality, color=colour, linestyle=line, marker=mark, ms=4, lw=1, label=label
        )
        axis.plot(measured["tokens_per_second"].iloc[0], quality.iloc[0], "o", color="black", mfc="none", ms=9)
