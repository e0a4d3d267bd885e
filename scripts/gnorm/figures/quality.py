"""Every metric of the configuration as heads go, and quality against measured speed.

Of metrics taken at every step the mean over runs (of random pruning over trials), with bands that span them. Speed
and generated text are of run 0 at the levels of random pruning. Speeds are medians, with bands from the slowest round
to the fastest; a ring marks the unpruned model. Perplexity has a logarithmic axis. Who writes nothing repeats nothing:
diversity and repetition are hollow where some texts have less than two words (table `speed`).
"""

from matplotlib.ticker import LogFormatter, MaxNLocator

from gnorm.engine.metrics import METRICS, at_steps, title
from gnorm.figures.style import band, legend, look, panels
from gnorm.statistics.results import Results, curves, over_runs, total_heads

NEEDS = ("tidy",)
OPTIONAL = ("speeds",)
SHOWN = ("metrics", "tasks")
COLUMNS = 4  # panels beside each other; a model starts a row


def draw(results: Results, settings: dict):
    tidy, looks, tasks = results.tidy(), look(list(results.strategies)), settings["tasks"]
    speeds = {model: results.speeds(model) for model in results.models}
    shown = {model: kinds(settings["metrics"][tasks[model]], rates) for model, rates in speeds.items()}
    columns, places = min(COLUMNS, max(map(len, shown.values()))), []
    for model, of_model in shown.items():
        places += [None] * (-len(places) % columns)
        places += [(model, *kind) for kind in of_model]
    figure, axes = panels(len(places), columns, height=2.3)
    drawn = [(axis, place) for axis, place in zip(axes, places, strict=True) if place]
    for axis, place in zip(axes, places, strict=True):
        if place is None:
            axis.remove()
    for axis, (model, metric, against_speed) in drawn:
        own = {name: runs for name in looks if (runs := curves(tidy, model, name))}
        if against_speed:
            by_speed(axis, own, metric, looks, speeds[model])
        elif METRICS[metric].of_predictions:
            by_step(axis, own, metric, looks)
        else:
            by_level(axis, metric, looks, speeds[model])
        name = f"{results.models[model]}: {title(metric, tasks[model])}"
        axis.set_title(f"{name} against speed" if against_speed else name)
        axis.set_xlabel("tokens a second" if against_speed else f"pruned heads (of {total_heads(tidy, model)})")
        if METRICS[metric].log:
            axis.set_yscale("log")
            for which in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
                which(LogFormatter(minor_thresholds=(2, 0.5)))  # plain numbers, fewer over a wide range
    legend(figure, [axis for axis, _ in drawn])
    return figure


def kinds(asked: list[str], speeds) -> list[tuple[str, bool]]:
    """List (metric, against speed or not) of a model's panels."""
    steps = ["accuracy", *at_steps(asked)]
    levels = [] if speeds is None else [name for name in asked if name in speeds]
    main = [name for name in ("accuracy", "perplexity") if name in steps and levels]
    return [(name, False) for name in (*steps, *levels)] + [(name, True) for name in main]


def by_step(axis, own, metric: str, looks) -> None:
    for name, runs in own.items():
        band(axis, over_runs(runs, "heads_pruned", metric), looks[name])


def by_level(axis, metric: str, looks, speeds) -> None:
    for name, measured in speeds.groupby("strategy", sort=False):
        label, colour, line, mark = looks[name]
        heads = measured["heads_pruned"]
        axis.plot(heads, measured[metric], color=colour, linestyle=line, marker=mark, ms=4, lw=1.4, label=label)
        if f"lowest_{metric}" in measured:
            spread = measured[f"lowest_{metric}"], measured[f"highest_{metric}"]
            axis.fill_between(heads, *spread, color=colour, alpha=0.15, linewidth=0)
        if METRICS[metric].of_words:
            hollow = measured[measured["texts_judged"] < measured["texts"]]
            axis.plot(
                hollow["heads_pruned"], hollow[metric], color=colour, linestyle="", marker=mark, ms=4, mfc="white"
            )
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def by_speed(axis, own, metric: str, looks, speeds) -> None:
    for name, measured in speeds.groupby("strategy", sort=False):
        label, colour, line, mark = looks[name]
        quality = own[name][0].set_index("heads_pruned")[metric].reindex(measured["heads_pruned"])
        rates = measured["tokens_per_second"]
        axis.plot(rates, quality, color=colour, linestyle=line, marker=mark, ms=4, lw=0.8, label=label)
        spread = measured["lowest_tokens_per_second"], measured["highest_tokens_per_second"]
        axis.hlines(quality, *spread, color=colour, lw=2.5, alpha=0.15)
        axis.plot(rates.iloc[0], quality.iloc[0], "o", color="black", mfc="none", ms=9)
    axis.xaxis.set_major_locator(MaxNLocator(5))  # long numbers
