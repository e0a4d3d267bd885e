"""Prune a model head by head by one strategy, for one or more runs."""

import copy
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import torch

from gnorm import batches, checkpoints, scores
from gnorm.evaluate import Evaluation
from gnorm.files import atomic, save_tensors
from gnorm.heads import head_map
from gnorm.logs import log, progress, start
from gnorm.rows import read, resample
from gnorm.trajectory import Stop, follow


def scorer(strategy, heads, tokenizer, rows, shards, run, seed, tokens):
    """The strategy's score as a function of the model, on the rows of this run."""
    criterion = scores.load(strategy["score"])
    weights = resample(len(rows), run, seed)
    if shards:  # entropy once, of rows that the shards have already
        fixed = criterion.from_shards(heads, shards, weights)
        return lambda model: fixed
    settings = strategy["settings"]
    if callable(getattr(criterion, "batches", None)):
        made = criterion.batches(tokenizer, rows, weights, tokens, **settings)
    else:
        made = batches.make(tokenizer, rows, tokens, weights)
    return lambda model: criterion.score(model, heads, made, **settings)


def main(dataset_folder, checkpoint, shards, strategy, seed, stop, tokens, reuse_mb, trajectory_files, score_files):
    unpruned, tokenizer = checkpoints.load(checkpoint)
    heads = head_map(unpruned)
    log.info("on %s", unpruned.device)
    evaluated = batches.make(tokenizer, read(dataset_folder, "evaluation"), tokens)
    rows = read(dataset_folder, "entropy" if strategy["score"] == "entropy" else "calibration")
    for trajectory_file, score_file in zip(trajectory_files, score_files, strict=True):
        run = int(Path(trajectory_file).stem.removeprefix("run"))
        model = copy.deepcopy(unpruned)
        evaluation = Evaluation(evaluated, heads, reuse_mb)
        score = scorer(strategy, heads, tokenizer, rows, shards, run, seed, tokens)
        followed = follow(model, heads, evaluation, score, strategy["prune"], strategy["rescore"], Stop(**stop))
        slots = heads.shape[0] * heads.shape[1]
        steps, taken = [], []
        for step, fresh in progress(followed, f"run {run}: step", slots + 1):
            steps.append(asdict(step))
            if fresh is not None:
                taken.append(fresh)
        log.info(
            "run %d: accuracy %.3f -> %.3f in %d steps",
            run,
            steps[0]["accuracy"],
            steps[-1]["accuracy"],
            len(steps) - 1,
        )
        save_tensors(score_file, torch.stack(taken) if taken else torch.zeros(0, *heads.shape))
        table = pd.DataFrame(steps).astype({"layer": "Int64", "head": "Int64"})
        with atomic(trajectory_file) as temporary:
            table.to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} {snakemake.wildcards.strategy}")
    torch.set_num_threads(snakemake.params.threads)
    main(
        snakemake.params.dataset_folder,
        snakemake.input.checkpoint,
        snakemake.input.get("shards", []),
        snakemake.params.strategy,
        snakemake.params.seed,
        snakemake.params.stop,
        snakemake.params.tokens,
        snakemake.resources.reuse_mb,
        snakemake.output.trajectories,
        snakemake.output.scores,
    )
