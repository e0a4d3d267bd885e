"""The benchmark's plot: a step, accuracy and entropy, a greedy run, and how a step grows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from gnorm.benchmarks.summary import STEP_TARGETS
from gnorm.figures.style import BLUE, GREEN, GREY, ORANGE, panels


def draw(table: pd.DataFrame, steps: pd.DataFrame, growth: pd.DataFrame) -> Figure:
    figure, axes = panels(4, 2, height=3.0)
    shapes = list(STEP_TARGETS)

    def get(section, shape, what, column="value"):
        lines = table.query("section == @section and shape == @shape and what == @what")
        return lines[column].iloc[0] if len(lines) else np.nan

    def bars(ax, section, groups, names, colours):
        for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
            where = np.arange(len(groups)) + (i - (len(names) - 1) / 2) * 0.8 / len(names)
            middle = np.array([get(section, group, name) for group in groups])
            error = np.abs(np.array([[get(section, g, name, c) for g in groups] for c in ("low", "high")]) - middle)
            ax.bar(where, middle, 0.8 / len(names), yerr=error, label=name, color=colour, error_kw={"linewidth": 0.8})
        ax.set_xticks(np.arange(len(groups)), [group.replace("-", "-\n") for group in groups])

    bars(axes[0], "greedy step", shapes, ["notebooks", "sentences", "engine"], [GREY, ORANGE, BLUE])
    axes[0].set(title="One scoring step", ylabel="seconds", yscale="log")
    axes[0].set_ylim(top=4 * axes[0].get_ylim()[1])  # room for the legend
    axes[0].legend(ncols=3, fontsize=7, loc="upper center")
    others = list(dict.fromkeys(table.query("section == 'accuracy'")["shape"]))
    for section, colour, shift in (("accuracy", BLUE, -0.2), ("entropy", ORANGE, 0.2)):
        faster = [get(section, shape, "one at a time / here") for shape in others]
        axes[1].bar(np.arange(len(others)) + shift, faster, 0.4, label=section, color=colour)
    axes[1].axhline(1, color=GREY, linewidth=0.8)
    axes[1].set_xticks(np.arange(len(others)), others)
    axes[1].set(title="Faster than one sentence at a time", ylabel="times")
    axes[1].set_ylim(top=1.2 * axes[1].get_ylim()[1])
    axes[1].legend(fontsize=7)
    median = steps.groupby("heads_left")["seconds"].median()
    axes[2].plot(median.index, median.to_numpy(), "o-", color=BLUE, markersize=3)
    axes[2].invert_xaxis()
    axes[2].set(title="A greedy run, step by step", xlabel="heads left", ylabel="seconds", ylim=(0, None))
    for (what, group), colour, mark in zip(
        growth.groupby("what", sort=False), (BLUE, ORANGE, GREEN, GREY), "os^D", strict=True
    ):
        line = group.groupby("point")["seconds"].median()
        axes[3].plot(
            line.index / line.index.max(), line / line.iloc[-1], marker=mark, color=colour, label=what, markersize=4
        )
    axes[3].set(title="Growth of a scoring step", xlabel="share of the largest", ylabel="share of its seconds")
    axes[3].set(xscale="log", yscale="log")
    ticks = [0.1, 0.25, 0.5, 1]
    for axis in (axes[3].xaxis, axes[3].yaxis):
        axis.set_ticks(ticks, [f"{t:g}" for t in ticks])
        axis.set_minor_formatter(NullFormatter())
    axes[3].legend(fontsize=7)
    return figure
