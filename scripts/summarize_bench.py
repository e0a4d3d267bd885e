"""The benchmark's table, in CSV and Markdown, and its plot, from everything measured."""

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

from gnorm.figures.style import BLUE, GREEN, GREY, ORANGE, panels, save
from gnorm.files import atomic, write_text
from gnorm.logs import log, start

# Of the paper: steps and rows of a greedy run, and the minutes that the authors' notebooks printed for it.
# Where calibration and evaluation rows are the same, scoring also evaluates.
PAPER = {
    "BERT": {"steps": 144, "calibration": 2329, "evaluation": 0, "notebooks": 2329, "minutes": 122},
    "ALBERT": {"steps": 12, "calibration": 9815, "evaluation": 0, "notebooks": 9815, "minutes": 22},
    "RoBERTa": {"steps": 384, "calibration": 250, "evaluation": 1000, "notebooks": 1000, "minutes": 471},
    "XLM-RoBERTa": {"steps": 144, "calibration": 500, "evaluation": 2500, "notebooks": 3000, "minutes": 84},
}
SAME_ENCODER = {"XLM-RoBERTa": "BERT"}
LARGEST = 2048  # tokens of a batch on a CPU
STEP_TARGETS = {"BERT": 15, "XLM-RoBERTa": 15, "RoBERTa": 30, "ALBERT": 1}
FLOOR, MEMORY, REUSE = 1.2, 1.1, 1.4


def spread(values):
    """Median, lowest and highest."""
    values = np.asarray(values, dtype=float)
    return {"value": np.median(values), "low": values.min(), "high": values.max()}


class Measured:
    """What was measured of the shapes, by section, shape and procedure."""

    def __init__(self, files):
        self.table = pd.concat([pd.read_csv(path) for path in files])
        rows = self.table.query("section == 'tokens' and procedure == 'length'")
        self.length = dict(zip(rows["shape"], rows["value"], strict=True))  # mean tokens of a row
        self.shapes = list(dict.fromkeys(self.table["shape"]))

    def get(self, section, shape, procedure):
        chosen = self.table.query("section == @section and shape == @shape and procedure == @procedure")
        return chosen.sort_values("repeat")["value"].to_numpy()

    def ratio(self, section, shape, first, second):
        """Of the same round each, so that what slows the machine for a while cancels out."""
        return self.get(section, shape, first) / self.get(section, shape, second)


def speed(measured):
    """Lines of the table on steps, accuracy, entropy and memory."""
    lines = []

    def add(section, shape, what, values, unit, target=None, reached=None):
        found = spread(values)
        lines.append({"section": section, "shape": shape, "what": what, **found, "unit": unit, "target": target})
        lines[-1]["reached"] = None if reached is None else bool(reached(found["value"]))

    for shape, target in STEP_TARGETS.items():
        tokens = {name: measured.get("tokens", shape, name)[0] for name in ("step", "full", "budget")}
        add("greedy step", shape, "tokens scored beside the naive procedures", [tokens["step"]], "tokens")
        for procedure in ("notebooks", "sentences", "engine"):
            add("greedy step", shape, procedure, measured.get("step", shape, procedure), "s")
        faster = measured.ratio("step", shape, "notebooks", "engine")
        wanted = f">= {target}" if target > 1 else "> 1"
        add("greedy step", shape, "notebooks / engine", faster, "x", wanted, lambda v, t=target: v >= t and v > 1)
        add("greedy step", shape, "sentences / engine", measured.ratio("step", shape, "sentences", "engine"), "x")
        add("full batches", shape, "tokens", [tokens["full"]], "tokens")
        for procedure in ("engine", "floor"):
            add("full batches", shape, procedure, measured.get("full", shape, procedure), "s")
        over = measured.ratio("full", shape, "engine", "floor")
        add("full batches", shape, "engine / floor", over, "x", f"<= {FLOOR}", lambda v: v <= FLOOR)
        used = measured.get("memory", shape, "engine") / tokens["budget"]
        add("memory", shape, "peak a token of a batch", used, "MB")
        add(
            "memory",
            shape,
            "peak a token, as the budget assumes",
            measured.get("memory", shape, "estimate a token"),
            "MB",
        )
        at_most = measured.get("memory", shape, "engine") / tokens["budget"] * LARGEST
        add("memory", shape, f"peak of a step, batches of {LARGEST} tokens", at_most, "MB")
        add("memory", shape, "peak of the notebooks' procedure", measured.get("memory", shape, "notebooks"), "MB")
        add("memory", shape, "the model itself", measured.get("memory", shape, "model"), "MB")
    for section in ("accuracy", "entropy"):
        for shape in measured.shapes:
            target = 2.5 if shape == "MiniLM" else 1.7
            if not len(measured.get(section, shape, "here")):
                continue
            for procedure in ("one at a time", "here"):
                add(section, shape, procedure, measured.get(section, shape, procedure), "s")
            faster = measured.ratio(section, shape, "one at a time", "here")
            add(section, shape, "one at a time / here", faster, "x", f">= {target}", lambda v, t=target: v >= t)
    rows = measured.table.query("section == 'entropy memory'")["procedure"].unique()
    peaks = {name: measured.get("entropy memory", "MiniLM", name) for name in rows}
    for name, values in peaks.items():
        add("entropy", "MiniLM", f"peak memory, {name}", values, "MB")
    medians = [np.median(values) for values in peaks.values()]
    add(
        "entropy",
        "MiniLM",
        "peak memory, most / least",
        [max(medians) / min(medians)],
        "x",
        f"<= {MEMORY}",
        lambda v: v <= MEMORY,
    )
    return lines


def trajectory_lines(steps, reuse):
    name = steps["model"].iloc[0]
    total = steps.groupby("repeat")["seconds"].sum()
    most, least = steps["heads_left"].max(), steps.query("heads_left > 0")["heads_left"].min()
    lines = [{"shape": name, "what": "whole greedy run", **spread(total), "unit": "s"}]
    for left in (most, least):
        seconds = steps.query("heads_left == @left")["seconds"]
        lines.append(
            {
                "shape": name,
                "what": f"step with {left} head{'s' if left > 1 else ''} left",
                **spread(seconds),
                "unit": "s",
            }
        )
    for model, group in reuse.groupby("model", sort=False):
        table = group.pivot(index="repeat", columns="procedure", values="seconds")
        for column in ("without reuse", "with reuse"):
            lines.append({"shape": model, "what": f"evaluations {column}", **spread(table[column]), "unit": "s"})
        saved = spread(table["without reuse"] / table["with reuse"])
        lines.append({"shape": model, "what": "without / with reuse", **saved, "unit": "x"})
        lines[-1] |= {"target": f">= {REUSE}", "reached": bool(saved["value"] >= REUSE)}
    return [{"section": "trajectory", **line} for line in lines]


def exactness_lines(errors):
    lines = []
    for model, group in errors.groupby("model", sort=False):
        by = group.set_index("scores")
        for name, row in by.iterrows():
            line = {"what": f"{name}, largest error", "value": row["largest"], "unit": "relative"}
            lines.append({**line, "shape": model})
            if name == "float64, here":
                lines[-1] |= {"target": "<= 1e-9", "reached": bool(row["largest"] <= 1e-9)}
        ratio = by.loc["float32, here", "largest"] / by.loc["float32, naive", "largest"]
        lines.append({"what": "float32 error, here / naive", "value": ratio, "unit": "x", "shape": model})
        lines[-1] |= {"target": "<= 2", "reached": bool(ratio <= 2)}
        tau = by.loc["bfloat16, here", "kendall"]
        lines.append({"what": "bfloat16, order against float64", "value": tau, "unit": "Kendall's tau", "shape": model})
    return [{"section": "exactness", **line} for line in lines]


def laws(growth):
    """Exponent of each power law: seconds ~ point ** exponent."""
    found = {}
    for what, group in growth.groupby("what", sort=False):
        median = group.groupby("point")["seconds"].median()
        found[what] = np.polyfit(np.log(median.index.astype(float)), np.log(median.to_numpy()), 1)[0]
    return found


def growth_lines(growth):
    exponents, lines = laws(growth), []
    for (what, point), group in growth.groupby(["what", "point"], sort=False):
        lines.append({"what": f"{what}: {point}", **spread(group["seconds"]), "unit": "s"})
    for what, exponent in exponents.items():
        lines.append({"what": f"{what}: exponent of the power law", "value": exponent, "unit": "-"})
    return [{"section": "growth", "shape": "BERT", **line} for line in lines]


def paper_lines(measured, growth):
    """The paper's greedy runs on this machine, here and by the notebooks' procedure.

    In proportion to tokens, as the growth laws' exponents of about 1 allow; a step costs less as heads go.
    """
    kept = growth.query("what == 'heads kept'").groupby("point")["seconds"].median().sort_index()
    share = np.trapezoid(kept, kept.index) / (kept.index[-1] - kept.index[0]) / kept.iloc[-1]
    lines = []

    def seconds(section, shape, procedure):
        """Median seconds a token."""
        return np.median(measured.get(section, shape, procedure)) / measured.get("tokens", shape, section)[0]

    for shape, run in PAPER.items():
        encoder = SAME_ENCODER.get(shape, shape)
        here = run["calibration"] * seconds("full", shape, "engine")
        here += run["evaluation"] * seconds("accuracy", encoder, "here")
        theirs = run["calibration"] * seconds("step", shape, "notebooks")
        theirs += run["notebooks"] * seconds("accuracy", encoder, "one at a time")
        hours = run["steps"] * share * measured.length[shape] / 3600
        for what, value in (
            ("greedy run here, extrapolated", here * hours),
            ("notebooks' procedure here, extrapolated", theirs * hours),
            ("printed by the authors' notebooks, on their GPU", run["minutes"] / 60),
        ):
            lines.append({"section": "the paper's runs", "shape": shape, "what": what, "value": value, "unit": "h"})
    return lines


def markdown(table, machines, settings):
    """One part a section, in the order measured."""
    measured = "\n".join(f"- {what}: {machine}." for what, machine in machines.items())
    text = [
        "# Benchmark\n",
        f"Measured by `make bench`, medians of at least {settings['repeats']} repeats taken by turns; low and high "
        f"are the least and the most. A ratio is that of the same round.\n\n{measured}\n",
        "Models have the paper's shapes with random weights; rows are random tokens with log-normal lengths around "
        "assumed means, as the datasets are not read. XLM-RoBERTa has BERT's encoder: its accuracy and entropy are "
        f"not measured again. Accuracy and entropy are those of {settings['evaluated']} rows. What repeats itself is "
        "timed in part and multiplied: of the loops over single sentences 16 rows, from short to long (of a step 8), "
        "of the notebooks' passes, one for each layer and all alike, one. Peak memory is what the work takes beyond "
        "the loaded model.\n",
    ]
    for section, group in table.groupby("section", sort=False):
        shown = group.drop(columns="section").dropna(axis=1, how="all")
        if "reached" in shown:
            shown["reached"] = shown["reached"].map({True: "yes", False: "NO"}).fillna("")
        for column in ("value", "low", "high"):
            if column in shown:
                shown[column] = [number(v) for v in shown[column]]
        shown = shown.fillna("")
        right = ["right" if c in ("value", "low", "high") else "left" for c in shown]
        text += [
            f"## {section.capitalize()}\n",
            shown.to_markdown(index=False, colalign=right, disable_numparse=True),
            "",
        ]
    return "\n".join(text)


def number(value):
    """Three digits."""
    if pd.isna(value):
        return ""
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def draw(table, steps, growth, png, pdf, dpi):
    figure, axes = panels(4, 2, height=3.0)
    shapes = list(STEP_TARGETS)

    def get(section, shape, what, column="value"):
        found = table.query("section == @section and shape == @shape and what == @what")
        return found[column].iloc[0] if len(found) else np.nan

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
    save(figure, png, pdf, dpi)


def main(shape_files, growth_file, trajectory_file, reuse_file, exactness_file, settings, outputs):
    measured = Measured(shape_files)
    growth, steps = pd.read_csv(growth_file), pd.read_csv(trajectory_file)
    lines = [
        *speed(measured),
        *trajectory_lines(steps, pd.read_csv(reuse_file)),
        *growth_lines(growth),
        *paper_lines(measured, growth),
        *exactness_lines(pd.read_csv(exactness_file)),
    ]
    machines = {
        "Shapes and growth": measured.table["machine"].iloc[0],
        "Trajectory and exactness": steps["machine"].iloc[0],
    }
    columns = ["section", "shape", "what", "value", "low", "high", "unit", "target", "reached"]
    table = pd.DataFrame(lines, columns=columns)
    missed = table[table["reached"].eq(False)]
    log.info("%d of %d targets reached", table["reached"].eq(True).sum(), table["reached"].notna().sum())
    for line in missed.itertuples():
        log.warning(
            "missed: %s, %s, %s is %s, wanted %s", line.section, line.shape, line.what, number(line.value), line.target
        )
    with atomic(outputs["csv"]) as temporary:
        table.to_csv(temporary, index=False)
    write_text(outputs["markdown"], markdown(table, machines, settings))
    draw(table, steps, growth, outputs["png"], outputs["pdf"], settings["dpi"])


if __name__ == "__main__":
    start(snakemake.log[0], "bench")
    main(
        snakemake.input.shapes,
        snakemake.input.growth,
        snakemake.input.trajectory,
        snakemake.input.reuse,
        snakemake.input.exactness,
        snakemake.params.settings,
        dict(snakemake.output.items()),
    )
