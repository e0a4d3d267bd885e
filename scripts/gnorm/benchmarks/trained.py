"""Measurements on a suite's own trained models: a whole trajectory step by step, and the exactness of scores."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Iterable

import pandas as pd
from scipy.stats import kendalltau

from gnorm.benchmarks import clock, models, naive, shapes
from gnorm.engine.batches import in_order, make
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.memory import LARGEST
from gnorm.models import surgery
from gnorm.pruning.trajectory import follow, replay
from gnorm.scores import gnorm
from gnorm.workbench import Workbench

REUSE_MB = 1000


class Timed(Evaluation):
    """An evaluation that adds up its seconds."""

    seconds = 0.0

    def accuracy(self, *arguments, **options):
        began = time.perf_counter()
        accuracy = super().accuracy(*arguments, **options)
        self.seconds += time.perf_counter() - began
        return accuracy


def trajectory(model, heads, calibration, evaluated, repeats):
    """Time each greedy step, and record the order of heads."""
    steps = []
    for repeat in range(repeats):
        evaluation = Evaluation(evaluated, heads, REUSE_MB)
        followed = follow(copy.deepcopy(model), heads, evaluation, lambda m: (gnorm.score(m, heads, calibration), {}))
        last = time.perf_counter()
        order = []
        for step, _ in followed:
            now = time.perf_counter()
            steps.append({"repeat": repeat, "heads_left": step.heads_left, "seconds": now - last})
            last = now
            if step.layer is not None:
                order.append((step.layer, step.head))
    return pd.DataFrame(steps), order


def reuse(model, heads, evaluated, order, repeats):
    """Time all evaluations along an order, with and without reuse of layers."""
    timed = []
    for repeat in range(repeats):
        for name, memory in (("without reuse", 0), ("with reuse", REUSE_MB)):
            evaluation = Timed(evaluated, heads, memory)
            for _ in replay(copy.deepcopy(model), heads, evaluation, order, range(len(order) + 1)):
                pass
            timed.append({"repeat": repeat, "procedure": name, "seconds": evaluation.seconds})
    return pd.DataFrame(timed)


def halved(model, heads, batches):
    """Copy the model without the half of its heads that scores lowest."""
    order = gnorm.score(model, heads, batches).flatten().argsort().tolist()
    pruned = copy.deepcopy(model)
    surgery.prune(pruned, heads, [(i // heads.heads, i % heads.heads) for i in order[: len(order) // 2]])
    return pruned


def exactness(model, heads, tokenizer, rows, tokens):
    """Compute relative errors of the scores against the naive loop in float64, and how rounding changes the order."""
    one, batches = in_order(tokenizer, rows, 1), make(tokenizer, rows, tokens)
    double = copy.deepcopy(model).double()
    exact = naive.sentences(double, heads, one)
    scores = {
        "float64, here": gnorm.score(double, heads, batches),
        "float32, here": gnorm.score(model, heads, batches),
        "float32, naive": naive.sentences(model, heads, one),
        "bfloat16, here": gnorm.score(model, heads, batches, precision="bfloat16"),
    }
    records, kept = [], heads.kept(model)
    for name, score in scores.items():
        error = ((score - exact).abs() / exact)[kept]
        tau = kendalltau(score[kept], exact[kept]).statistic
        records.append({"scores": name, "largest": error.max().item(), "median": error.median().item(), "kendall": tau})
    return records


def measure(trained: Iterable[tuple[str, Workbench]], repeats: int) -> dict[str, pd.DataFrame]:
    """Make the tables `trajectory`, `reuse` and `exactness`; the first of the models is pruned."""
    errors, saved, steps = [], [], None
    for name, bench in trained:
        model, heads, rows = bench.model, bench.heads, bench.rows("calibration")
        half = halved(model, heads, bench.batches("calibration"))
        for which, part in ((name, model), (f"{name}, half of the heads pruned", half)):
            records = exactness(part, heads, bench.tokenizer, rows, bench.tokens)
            errors += [{"model": which, **record} for record in records]
        if steps is None:
            evaluated = bench.batches("evaluation")
            steps, order = trajectory(model, heads, bench.batches("calibration"), evaluated, repeats)
            steps["model"] = f"{name} of the suite"
            saved.append(reuse(model, heads, evaluated, order, repeats).assign(model=f"{name} of the suite"))
    model, heads = models.build(shapes.NARROW)
    evaluated = make(models.Ids(shapes.NARROW), models.rows(shapes.NARROW, 32), LARGEST[model.device.type])
    slots = [(row, head) for row in range(heads.shape[0]) for head in range(heads.heads)]
    timed = reuse(model, heads, evaluated, random.Random(0).sample(slots, len(slots)), repeats)
    saved.append(timed.assign(model="12 layers, random order"))
    tables = {"trajectory": steps, "reuse": pd.concat(saved), "exactness": pd.DataFrame(errors)}
    return {name: table.assign(machine=clock.machine()) for name, table in tables.items()}
