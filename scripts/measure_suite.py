"""On a suite's own trained models: a whole trajectory step by step, and how exact the scores are."""

import copy
import random
import sys
import time
from pathlib import Path

import pandas as pd
import torch
from scipy.stats import kendalltau

sys.path.append(str(Path(__file__).resolve().parents[1]))
from benchmarks import clock, naive, shapes
from gnorm.data.rows import read
from gnorm.engine.batches import in_order, make
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.memory import LARGEST, token_budget
from gnorm.files import atomic
from gnorm.logs import start
from gnorm.models import checkpoints, surgery
from gnorm.models.heads import head_map
from gnorm.pruning.trajectory import follow, replay
from gnorm.scores import gnorm

REUSE_MB = 1000


class Timed(Evaluation):
    """Adds up the seconds of its evaluations."""

    seconds = 0.0

    def accuracy(self, *arguments, **options):
        began = time.perf_counter()
        found = super().accuracy(*arguments, **options)
        self.seconds += time.perf_counter() - began
        return found


def trajectory(model, heads, calibration, evaluated, repeats):
    """Seconds of each greedy step, and the order of heads."""
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
    """Seconds of all evaluations along an order, with and without reuse of layers."""
    found = []
    for repeat in range(repeats):
        for name, memory in (("without reuse", 0), ("with reuse", REUSE_MB)):
            evaluation = Timed(evaluated, heads, memory)
            for _ in replay(copy.deepcopy(model), heads, evaluation, order, range(len(order) + 1)):
                pass
            found.append({"repeat": repeat, "procedure": name, "seconds": evaluation.seconds})
    return pd.DataFrame(found)


def halved(model, heads, made):
    """The model without the half of its heads that scores lowest."""
    order = gnorm.score(model, heads, made).flatten().argsort().tolist()
    pruned = copy.deepcopy(model)
    surgery.prune(pruned, heads, [(i // heads.heads, i % heads.heads) for i in order[: len(order) // 2]])
    return pruned


def exactness(model, heads, tokenizer, rows, tokens):
    """Relative errors of the scores against the naive loop in float64, and what rounding does to the order."""
    one, made = in_order(tokenizer, rows, 1), make(tokenizer, rows, tokens)
    double = copy.deepcopy(model).double()
    exact = naive.sentences(double, heads, one)
    scores = {
        "float64, here": gnorm.score(double, heads, made),
        "float32, here": gnorm.score(model, heads, made),
        "float32, naive": naive.sentences(model, heads, one),
        "bfloat16, here": gnorm.score(model, heads, made, precision="bfloat16"),
    }
    records, kept = [], heads.kept(model)
    for name, score in scores.items():
        error = ((score - exact).abs() / exact)[kept]
        tau = kendalltau(score[kept], exact[kept]).statistic
        records.append({"scores": name, "largest": error.max().item(), "median": error.median().item(), "kendall": tau})
    return records


def main(models, tokens, memory_mb, repeats, trajectory_file, reuse_file, exactness_file):
    """`models` has (name, checkpoint, dataset folder) of each; the first one is pruned."""
    errors, saved, steps = [], [], None
    for name, checkpoint, folder in models:
        model, tokenizer = checkpoints.load(checkpoint)
        heads = head_map(model)
        budget = token_budget(tokens, model, heads, memory_mb)
        rows = read(folder, "calibration")
        half = halved(model, heads, make(tokenizer, rows, budget))
        for which, part in ((name, model), (f"{name}, half of the heads pruned", half)):
            errors += [{"model": which, **record} for record in exactness(part, heads, tokenizer, rows, budget)]
        if steps is None:
            evaluated = make(tokenizer, read(folder, "evaluation"), budget)
            steps, order = trajectory(model, heads, make(tokenizer, rows, budget), evaluated, repeats)
            steps["model"] = f"{name} of the suite"
            saved.append(reuse(model, heads, evaluated, order, repeats).assign(model=f"{name} of the suite"))
    model, heads = shapes.build(shapes.NARROW)
    evaluated = make(shapes.Ids(shapes.NARROW), shapes.rows(shapes.NARROW, 32), LARGEST[model.device.type])
    slots = [(row, head) for row in range(heads.shape[0]) for head in range(heads.heads)]
    found = reuse(model, heads, evaluated, random.Random(0).sample(slots, len(slots)), repeats)
    saved.append(found.assign(model="12 layers, random order"))
    for table, path in (
        (steps, trajectory_file),
        (pd.concat(saved), reuse_file),
        (pd.DataFrame(errors), exactness_file),
    ):
        with atomic(path) as temporary:
            table.assign(machine=clock.machine()).to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], "bench suite")
    torch.set_num_threads(snakemake.params.threads)
    main(
        snakemake.params.models,
        snakemake.params.tokens,
        snakemake.params.memory_mb,
        snakemake.params.repeats,
        snakemake.output.trajectory,
        snakemake.output.reuse,
        snakemake.output.exactness,
    )
