"""Prune in random orders, evaluating at the levels of the suite."""

import copy

import pandas as pd
import torch

from gnorm.data.rows import read
from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.memory import Probe, token_budget
from gnorm.files import atomic
from gnorm.logs import log, start
from gnorm.logs import progress as announce
from gnorm.models import checkpoints
from gnorm.models.heads import head_map
from gnorm.models.neurons import slot_map
from gnorm.pruning.trajectory import replay
from gnorm.resume import State, job
from gnorm.scores.random import order
from gnorm.statistics.curves import counts


def main(
    dataset_folder,
    checkpoint,
    strategy,
    unit,
    first,
    last,
    levels,
    seed,
    tokens,
    memory_mb,
    reuse_mb,
    state,
    output,
    metrics=(),
    budget=None,
):
    unpruned, tokenizer = checkpoints.load(checkpoint)
    evaluation_rows = read(dataset_folder, "evaluation")
    probe = Probe(checkpoint, dataset_folder, budget, reuse_mb) if budget else None
    tokens = token_budget(tokens, unpruned, head_map(unpruned), memory_mb, reuse_mb, probe)
    evaluated = batches.make(tokenizer, evaluation_rows, tokens, what="evaluation rows")
    evaluated = batches.resident(evaluated, unpruned.device)
    heads = slot_map(unpruned, unit)  # or neurons
    belongs_to = {
        **job("random_pruning", [checkpoint, dataset_folder]),
        "device": unpruned.device.type,
        "tokens": tokens,
        "strategy": strategy,
        "unit": unit,
        "trials": [first, last],
        "levels": levels,
        "seed": seed,
        "metrics": list(metrics),
    }
    progress = State(state, belongs_to)
    rows = progress.load() or []
    if rows:
        log.info("goes on after trial %d with %d heads pruned", rows[-1]["trial"], rows[-1]["heads_pruned"])
    slots = [(row, head) for row in range(heads.shape[0]) for head in range(heads.shape[1])]
    wanted = counts(len(slots), levels)
    start_from = Evaluation(evaluated, heads, reuse_mb // 2, metrics)  # its outputs stay beside those of a trial
    start_from.accuracy(unpruned)
    over, past = divmod(len(rows), levels)  # trials, and levels of the next one
    left = range(first + over, last + 1)
    for trial in announce(left, "trial", len(left)):
        drawn = order(slots, strategy, seed, trial)
        model, written = copy.deepcopy(unpruned), " ".join(f"{layer}.{head}" for layer, head in drawn)
        for _, measured in replay(model, heads, start_from.copy(), drawn, wanted, past):
            rows.append(
                {
                    "trial": trial,
                    "heads_pruned": heads.total - heads.left(model),
                    "accuracy": measured.value,
                    "correct": measured.correct,
                    "evaluated": measured.evaluated,
                    "parameters": sum(p.numel() for p in model.parameters()),
                    "order": written,
                    **measured.metrics,
                }
            )
            progress.save(rows)
        past = 0
    log.info("%d trials of %d levels", last - first + 1, levels)
    with atomic(output) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)
    progress.finish()


if __name__ == "__main__":
    wildcards = snakemake.wildcards
    start(snakemake.log[0], f"{wildcards.model} {wildcards.strategy} {wildcards.first}-{wildcards.last}")
    torch.set_num_threads(snakemake.params.threads)
    main(
        snakemake.params.dataset_folder,
        snakemake.input.checkpoint,
        wildcards.strategy,
        snakemake.params.unit,
        int(wildcards.first),
        int(wildcards.last),
        snakemake.params.levels,
        snakemake.params.seed,
        snakemake.params.tokens,
        snakemake.params.memory_mb,
        snakemake.resources.reuse_mb,
        snakemake.params.state,
        snakemake.output[0],
        snakemake.params.metrics,
        snakemake.params.budget,
    )
