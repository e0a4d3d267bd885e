"""Score a model's heads by every criterion to compare, and prune it in the order of each."""

import copy

import pandas as pd
import torch

from gnorm import batches, checkpoints, passes, scores
from gnorm.curves import counts
from gnorm.evaluate import Evaluation
from gnorm.files import atomic
from gnorm.heads import head_map
from gnorm.logs import log, progress, start
from gnorm.memory import token_budget
from gnorm.rows import read, resample
from gnorm.trajectory import replay


def score_run(model, heads, tokenizer, folder, shards, criteria, run, seed, tokens):
    """The scores of a run by criterion, and the standard errors of those that know theirs.

    Criteria that read the same batches share passes; entropies are in the shards.
    """
    found, errors, together = {}, {}, {}
    rows = read(folder, "calibration")
    weights = resample(len(rows), run, seed)
    for name, settings in criteria.items():
        criterion = scores.load(name)
        if name == "entropy":
            found[name] = criterion.from_shards(heads, shards, resample(len(read(folder, "entropy")), run, seed))
        elif settings.get("granularity") == "batch":
            made = criterion.batches(tokenizer, rows, weights, tokens, **settings)
            found[name] = criterion.score(model, heads, made, **settings)
        else:
            together[name] = settings
    made = batches.make(tokenizer, rows, tokens, weights, "calibration rows")
    found |= passes.of_all(model, heads, made, together, seed + run, errors=errors)
    return {name: found[name] for name in criteria}, errors


def in_order(values, prune):
    """Slots from the first to prune to the last; ties go to the lowest (layer, head)."""
    sign = 1 if prune == "lowest" else -1
    slots = [(row, head) for row in range(values.shape[0]) for head in range(values.shape[1])]
    return sorted(slots, key=lambda slot: (sign * values[slot].item(), slot))


def main(folder, checkpoint, shards, criteria, levels, runs, seed, tokens, memory_mb, reuse_mb, outputs):
    unpruned, tokenizer = checkpoints.load(checkpoint)
    heads = head_map(unpruned)
    tokens = token_budget(tokens, unpruned, heads, memory_mb, reuse_mb)
    evaluated = batches.make(tokenizer, read(folder, "evaluation"), tokens, what="evaluation rows")
    start_from = Evaluation(evaluated, heads, reuse_mb // 2)  # its outputs stay beside those of an order
    start_from.accuracy(unpruned)
    wanted = counts(heads.shape[0] * heads.shape[1], levels)
    scored, curves = [], []
    for run in progress(range(runs), "run", runs):
        found, errors = score_run(unpruned, heads, tokenizer, folder, shards, criteria, run, seed, tokens)
        for name, values in found.items():
            order = in_order(values, scores.load(name).PRUNE)
            for rank, slot in enumerate(order, start=1):
                error = errors[name][slot].item() if name in errors else None
                scored.append((name, run, *slot, values[slot].item(), error, rank))
            model = copy.deepcopy(unpruned)
            for _, measured in replay(model, heads, start_from.copy(), order, wanted):
                pruned = heads.total - heads.left(model)
                curves.append((name, run, pruned, pruned / heads.total, measured.value))
    costs = [(name, *passes.cost_of_all(unpruned, heads, {name: settings})) for name, settings in criteria.items()]
    log.info("%d criteria, %d runs, %d levels", len(criteria), runs, levels)
    for values, columns, output in (
        (scored, "criterion run layer head score error rank", outputs.scores),
        (curves, "criterion run heads_pruned fraction_pruned accuracy", outputs.curves),
        (costs, "criterion forward backward", outputs.costs),
    ):
        with atomic(output) as temporary:
            pd.DataFrame(values, columns=columns.split()).to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} criteria")
    torch.set_num_threads(snakemake.params.threads)
    main(
        snakemake.params.dataset_folder,
        snakemake.input.checkpoint,
        snakemake.input.get("shards", []),
        snakemake.params.criteria,
        snakemake.params.levels,
        snakemake.params.runs,
        snakemake.params.seed,
        snakemake.params.tokens,
        snakemake.params.memory_mb,
        snakemake.resources.reuse_mb,
        snakemake.output,
    )
