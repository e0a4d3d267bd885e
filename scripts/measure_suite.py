"""On a suite's own trained models: a whole trajectory step by step, and how exact the scores are."""

import copy
import sys
import time
from pathlib import Path

import pandas as pd
import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))
from benchmarks import clock, naive
from gnorm import checkpoints
from gnorm.batches import in_order, make
from gnorm.evaluate import Evaluation
from gnorm.files import atomic
from gnorm.heads import head_map
from gnorm.logs import log, start
from gnorm.memory import token_budget
from gnorm.ranks import kendall_tau
from gnorm.rows import read
from gnorm.scores import gnorm
from gnorm.trajectory import follow, replay

REUSE_MB = 1000


def trajectory(model, tokenizer, folder, tokens, repeats):
    """Seconds of each greedy step; of all its evaluations again with and without reuse of layers."""
    heads = head_map(model)
    calibration = make(tokenizer, read(folder, "calibration"), tokens)
    evaluated = make(tokenizer, read(folder, "evaluation"), tokens)
    steps, reuse = [], []
    for repeat in range(repeats):
        evaluation = Evaluation(evaluated, heads, REUSE_MB)
        current = copy.deepcopy(model)
        followed = follow(current, heads, evaluation, lambda m: (gnorm.score(m, heads, calibration), {}))
        last = time.perf_counter()
        order = []
        for step, _ in followed:
            now = time.perf_counter()
            steps.append({"repeat": repeat, "heads_left": step.heads_left, "seconds": now - last})
            last = now
            if step.layer is not None:
                order.append((step.layer, step.head))
        for name, memory in (("without reuse", 0), ("with reuse", REUSE_MB)):

            def evaluate(memory=memory, order=order):
                evaluation, levels = Evaluation(evaluated, heads, memory), range(len(order) + 1)
                list(replay(copy.deepcopy(model), heads, evaluation, order, levels))

            reuse.append({"repeat": repeat, "procedure": name, "seconds": clock.seconds(evaluate)})
    return pd.DataFrame(steps), pd.DataFrame(reuse)


def exactness(model, tokenizer, folder, tokens):
    """Relative errors of the scores against float64, here and of the naive loop, and what bfloat16 does."""
    rows = read(folder, "calibration")
    one, made = in_order(tokenizer, rows, 1), make(tokenizer, rows, tokens)
    heads = head_map(model)
    double = copy.deepcopy(model).double()
    exact = gnorm.score(double, heads, made)
    scores = {
        "float64, naive": naive.sentences(double, heads, one),
        "float32, here": gnorm.score(model, heads, made),
        "float32, naive": naive.sentences(model, heads, one),
        "bfloat16, here": gnorm.score(model, heads, made, precision="bfloat16"),
    }
    records = []
    for name, score in scores.items():
        error = ((score - exact).abs() / exact).flatten()
        tau = kendall_tau(score.flatten().tolist(), exact.flatten().tolist())
        records.append({"scores": name, "largest": error.max().item(), "median": error.median().item(), "kendall": tau})
    return records


def main(models, tokens, memory_mb, repeats, trajectory_file, reuse_file, exactness_file):
    """`models` has (name, checkpoint, dataset folder) of each."""
    errors = []
    for name, checkpoint, folder in models:
        model, tokenizer = checkpoints.load(checkpoint)
        budget = token_budget(tokens, model, head_map(model), memory_mb)
        errors += [{"model": name, **record} for record in exactness(model, tokenizer, folder, budget)]
    name, checkpoint, folder = models[0]
    model, tokenizer = checkpoints.load(checkpoint)
    budget = token_budget(tokens, model, head_map(model), memory_mb)
    steps, reuse = trajectory(model, tokenizer, folder, budget, repeats)
    log.info("%s: %.1f s a trajectory", name, steps["seconds"].sum() / repeats)
    for table, path in (
        (steps.assign(model=name), trajectory_file),
        (reuse.assign(model=name), reuse_file),
        (pd.DataFrame(errors), exactness_file),
    ):
        with atomic(path) as temporary:
            table.to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], "bench suite")
    torch.set_num_threads(snakemake.params.threads)
    main(
        snakemake.params.models,
        snakemake.params.tokens,
        snakemake.resources.mem_mb,
        snakemake.params.repeats,
        snakemake.output.trajectory,
        snakemake.output.reuse,
        snakemake.output.exactness,
    )
