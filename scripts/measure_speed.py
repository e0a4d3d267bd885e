"""Tokens a second and, of language models, the text itself, as heads go in the order of each strategy's run 0."""

import copy
import math
import statistics
from collections import defaultdict

import pandas as pd
import torch

from gnorm.data.rows import read
from gnorm.devices import repeatably
from gnorm.engine.metrics import METRICS, rounded
from gnorm.engine.speed import Reader, Writer
from gnorm.files import atomic
from gnorm.logs import log, progress, start
from gnorm.models import checkpoints, surgery
from gnorm.models.heads import head_map
from gnorm.statistics.curves import counts
from gnorm.statistics.results import STEPS, read_table

ROUNDS = 5  # over all strategies and levels, so that a busy moment does not meet every measurement of a level


def orders(trajectories):
    """Slots as each strategy pruned them."""
    found = {}
    for strategy, path in trajectories.items():
        steps = read_table(path, (*STEPS, "layer", "head")).dropna(subset=["layer", "head"])
        found[strategy] = [(int(layer), int(head)) for layer, head in zip(steps["layer"], steps["head"], strict=True)]
    return found


def sweep(unpruned, heads, order, levels):
    """The model at each level that the order reaches, with the slots that are gone."""
    model, done = copy.deepcopy(unpruned), 0
    for level in (level for level in levels if level <= len(order)):
        if level > done:
            surgery.prune(model, heads, order[done:level])
            done = level
        yield frozenset(order[:level]), model


def rate(found):
    """Tokens a second: the median over rounds, and the slowest and the fastest of them."""
    seconds, tokens = [one.seconds for one in found], found[0].tokens
    row = {"tokens": tokens, "seconds": rounded(statistics.median(seconds))}
    row["tokens_per_second"] = rounded(tokens / row["seconds"])
    row["lowest_tokens_per_second"] = rounded(tokens / max(seconds))
    row["highest_tokens_per_second"] = rounded(tokens / min(seconds))
    return row


def quality(texts, wanted):
    """Means over the texts, of those long enough to have a value, with how much there was to judge.

    A model that writes next to nothing repeats nothing: words and texts say so.
    """
    words = [len(text.split()) for text in texts]
    found = {"words": rounded(statistics.mean(words)), "texts": len(texts)}
    found["texts_judged"] = sum(count > 1 for count in words)  # by all metrics; one word has a diversity alone
    for name in wanted:
        values = [METRICS[name].of_words(text.split()) for text in texts]
        values = [value for value in values if not math.isnan(value)]
        found[name] = rounded(statistics.mean(values)) if values else math.nan
    return found


def main(dataset_folder, checkpoint, trajectories, levels, metrics, generation, output):
    unpruned, tokenizer = checkpoints.load(checkpoint)
    heads = head_map(unpruned)
    writes, evaluated = checkpoints.task_of(unpruned) == "language_model", read(dataset_folder, "evaluation")
    if writes:
        measure = Writer(tokenizer, evaluated, checkpoints.positions(unpruned), **generation)
    else:
        measure = Reader(tokenizer, evaluated)
    ways, wanted = orders(trajectories), counts(heads.shape[0] * heads.shape[1], levels)
    measured, sizes = defaultdict(list), {}
    for _ in progress(range(ROUNDS), "round", ROUNDS):
        fresh = set()  # the whole model, and the one without heads, lie on every way
        for order in ways.values():
            for gone, model in sweep(unpruned, heads, order, wanted):
                if gone not in fresh:
                    fresh.add(gone)
                    measured[gone].append(repeatably(lambda model=model: measure(model)))
                    pruned = heads.total - heads.left(model)
                    sizes[gone] = {"heads_pruned": pruned, "fraction_pruned": pruned / heads.total}
                    sizes[gone]["parameters"] = sum(p.numel() for p in model.parameters())
    rows = []
    for strategy, order in ways.items():
        for gone in (frozenset(order[:level]) for level in wanted if level <= len(order)):
            found = measured[gone]
            row = {"strategy": strategy, **sizes[gone], **rate(found)}
            if writes:
                row |= quality(found[0].texts, [name for name in metrics if METRICS[name].of_words])
                row["text"] = found[0].texts[0].strip()
            rows.append(row)
    log.info("%d levels of %d strategies, medians of %d", len(wanted), len(ways), ROUNDS)
    with atomic(output) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} speed")
    torch.set_num_threads(snakemake.params.threads)
    main(
        snakemake.params.dataset_folder,
        snakemake.input.checkpoint,
        dict(zip(snakemake.params.strategies, snakemake.input.trajectories, strict=True)),
        snakemake.params.levels,
        snakemake.params.metrics,
        snakemake.params.generation,
        snakemake.output[0],
    )
