"""The lines of the benchmark's table, from all measurements; imports no torch."""

from __future__ import annotations

import numpy as np
import pandas as pd

from gnorm.benchmarks.shapes import SAME_ENCODER
from gnorm.published import paper
from gnorm.statistics.columns import read_csv

COLUMNS = ["section", "shape", "what", "value", "low", "high", "unit", "target", "reached"]
STEP_TARGETS = {"BERT": 15, "XLM-RoBERTa": 15, "RoBERTa": 30, "ALBERT": 1}
FLOOR, MEMORY, REUSE = 1.2, 1.1, 1.4


def spread(values):
    """Median, lowest and highest."""
    values = np.asarray(values, dtype=float)
    return {"value": np.median(values), "low": values.min(), "high": values.max()}


class Measured:
    """The measurements of the shapes, by section, shape and procedure."""

    def __init__(self, files):
        self.table = pd.concat([read_csv(path) for path in files])
        rows = self.table.query("section == 'tokens' and procedure == 'length'")
        self.length = dict(zip(rows["shape"], rows["value"], strict=True))  # mean tokens of a row
        self.shapes = list(dict.fromkeys(self.table["shape"]))

    def get(self, section, shape, procedure):
        chosen = self.table.query("section == @section and shape == @shape and procedure == @procedure")
        return chosen.sort_values("repeat")["value"].to_numpy()

    def ratio(self, section, shape, first, second):
        """Divide values of the same rounds, so that a slow moment of the machine cancels out."""
        return self.get(section, shape, first) / self.get(section, shape, second)


def speed(measured):
    """Lines of the table on steps, accuracy, entropy and memory."""
    lines = []

    def add(section, shape, what, values, unit, target=None, reached=None):
        line = {"section": section, "shape": shape, "what": what, **spread(values), "unit": unit, "target": target}
        lines.append({**line, "reached": None if reached is None else bool(reached(line["value"]))})

    for shape, target in STEP_TARGETS.items():
        tokens = {name: measured.get("tokens", shape, name)[0] for name in ("step", "full", "budget", "most")}
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
        at_most = used * tokens["most"]
        add("memory", shape, f"peak of a step, batches of {tokens['most']:.0f} tokens", at_most, "MB")
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
    """Fit the exponent of each power law: seconds ~ point ** exponent."""
    exponents = {}
    for what, group in growth.groupby("what", sort=False):
        median = group.groupby("point")["seconds"].median()
        exponents[what] = np.polyfit(np.log(median.index.astype(float)), np.log(median.to_numpy()), 1)[0]
    return exponents


def growth_lines(growth):
    exponents, lines = laws(growth), []
    for (what, point), group in growth.groupby(["what", "point"], sort=False):
        lines.append({"what": f"{what}: {point}", **spread(group["seconds"]), "unit": "s"})
    for what, exponent in exponents.items():
        lines.append({"what": f"{what}: exponent of the power law", "value": exponent, "unit": "-"})
    return [{"section": "growth", "shape": "BERT", **line} for line in lines]


def paper_lines(measured, growth, suite):
    """Extrapolate the paper's greedy runs on this machine, here and by the notebooks' procedure.

    Time is taken in proportion to tokens, as the growth laws have exponents of about 1; a step costs less as heads go.
    `suite` has the models of the suite `paper`, for their rows.
    """
    kept = growth.query("what == 'heads kept'").groupby("point")["seconds"].median().sort_index()
    share = np.trapezoid(kept, kept.index) / (kept.index[-1] - kept.index[0]) / kept.iloc[-1]
    lines = []

    def seconds(section, shape, procedure):
        """Compute the median seconds per token."""
        return np.median(measured.get(section, shape, procedure)) / measured.get("tokens", shape, section)[0]

    for name, reported in paper.MODELS.items():
        shape = reported.title
        encoder = SAME_ENCODER.get(shape, shape)
        scored, evaluated, evaluated_alone = rows_of(suite[name])
        here = scored * seconds("full", shape, "engine")
        here += evaluated_alone * seconds("accuracy", encoder, "here")
        theirs = scored * seconds("step", shape, "notebooks")
        theirs += evaluated * seconds("accuracy", encoder, "one at a time")
        hours = reported.slots * share * measured.length[shape] / 3600
        for what, value in (
            ("greedy run here, extrapolated", here * hours),
            ("notebooks' procedure here, extrapolated", theirs * hours),
            ("printed by the authors' notebooks, on their GPU", reported.minutes / 60),
        ):
            lines.append({"section": "the paper's runs", "shape": shape, "what": what, "value": value, "unit": "h"})
    return lines


def rows_of(entry):
    """Count a model's rows that are scored, evaluated, and evaluated without being scored.

    Scoring evaluates the rows that both lists have: the first ones, unless some have no class to predict.
    """
    rows, scored = entry["rows"], entry["rows"]["calibration"]
    if rows["evaluation"] == "same":
        return scored, scored, 0
    shared = 0 if rows["disjoint"] or entry["dataset"].get("unscored") else min(scored, rows["evaluation"])
    return scored, rows["evaluation"], rows["evaluation"] - shared


def summary(measured, *, growth, steps, reuse, exactness, suite):
    """Make one table of all lines of the benchmark."""
    lines = [
        *speed(measured),
        *trajectory_lines(steps, reuse),
        *growth_lines(growth),
        *paper_lines(measured, growth, suite),
        *exactness_lines(exactness),
    ]
    return pd.DataFrame(lines, columns=COLUMNS)
