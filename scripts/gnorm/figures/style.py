"""One look for every figure: print-sized, and readable without colour."""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas.api.typing import SeriesGroupBy

from gnorm.files import atomic

# Okabe and Ito's colours, which all common kinds of colour vision can tell apart.
BLUE, ORANGE, GREEN, RED, SKY, PINK, YELLOW, BLACK, GREY = (
    "#0072B2 #E69F00 #009E73 #D55E00 #56B4E9 #CC79A7 #F0E442 #000000 #777777".split()
)
KNOWN = {
    "greedy_gnorm": ("Greedy-Gnorm", BLUE, "-", "o"),
    "inverse_gnorm": ("Inverse-Gnorm", RED, "--", "s"),
    "static_gnorm": ("Static Gnorm", GREEN, "-.", "^"),
    "ae": ("AE", ORANGE, (0, (5, 1, 1, 1, 1, 1)), "D"),
    "inverse_ae": ("Inverse-AE", PINK, ":", "v"),
    "random": ("Random", GREY, "-", "x"),
}
SPARE = [
    (colour, line, mark) for line in ("-", "--", ":") for colour, mark in zip((SKY, BLACK, GREY), "P*X", strict=True)
]

matplotlib.rcdefaults()  # a matplotlibrc of the working directory, or of a user, changes nothing
matplotlib.rcParams.update(
    {
        "font.size": 9,
        "text.parse_math": False,  # a $ in a title is one
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#e6e6e6",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "pdf.fonttype": 42,  # letters stay letters in the PDF
        "svg.fonttype": "none",
    }
)


def look(strategies: list[str]) -> dict[str, tuple]:
    """Give each strategy a (label, colour, line, marker); an unknown one gets a spare look."""
    spare = iter(SPARE * (1 + len(strategies) // len(SPARE)))
    return {name: KNOWN.get(name) or (name.replace("_", " "), *next(spare)) for name in strategies}


def panels(count: int, columns: int, height: float = 2.6, **options) -> tuple[Figure, list[Axes]]:
    """Make a figure with `count` axes, at most `columns` in a row; surplus axes are removed."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    width = 3.6 * columns if columns > 1 else 5.0
    figure, axes = plt.subplots(
        rows, columns, figsize=(width, height * rows + 0.4), squeeze=False, layout="constrained", **options
    )
    flat = list(axes.flat)
    for extra in flat[count:]:
        extra.remove()
    return figure, flat[:count]


def band(axis: Axes, runs: SeriesGroupBy, look: tuple) -> None:
    """Draw the mean of several runs over the number of pruned heads, and a band that spans them."""
    mean, (label, colour, line, mark) = runs.mean(), look
    every = max(1, len(mean) // 12)
    axis.plot(mean.index, mean, color=colour, linestyle=line, marker=mark, markevery=every, ms=4, lw=1.4, label=label)
    axis.fill_between(mean.index, runs.min(), runs.max(), color=colour, alpha=0.15, linewidth=0)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def legend(figure: Figure, axes: list[Axes], order: list[str] | None = None) -> None:
    """Draw one legend below all axes, each label once, in rows of equal length that fit the figure."""
    handles = {}
    for axis in axes:
        handles |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    labels = [label for label in order or handles if label in handles]
    rows = math.ceil(len(labels) / (figure.get_figwidth() // 1.4))
    figure.legend(
        [handles[label] for label in labels],
        labels,
        loc="outside lower center",
        ncols=math.ceil(len(labels) / rows),
        handlelength=3,
    )


def save(figure: Figure, png: str | Path, pdf: str | Path, dpi: int) -> None:
    # No dates, so that drawing twice gives the same file.
    with atomic(png) as temporary:
        figure.savefig(temporary, dpi=dpi, metadata={"Software": None})
    with atomic(pdf) as temporary:
        figure.savefig(temporary, metadata={"CreationDate": None, "ModDate": None})
    plt.close(figure)
