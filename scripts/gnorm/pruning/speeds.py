"""Tokens per second and, for language models, the text, while heads are pruned in given orders."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from torch import nn

from gnorm.devices import repeatably
from gnorm.engine.metrics import METRICS, rounded
from gnorm.engine.speed import Measured
from gnorm.logs import log, progress
from gnorm.models import surgery
from gnorm.models.accounting import count
from gnorm.models.gates import Slot
from gnorm.models.loaded import Loaded
from gnorm.statistics.curves import counts

ROUNDS = 5  # over all strategies and levels, so that a busy moment does not meet every measurement of a level


def sweep(bench: Loaded, order: Sequence[Slot], levels: Sequence[int]) -> Iterator[tuple[frozenset[Slot], nn.Module]]:
    """Yield the model at each level that the order reaches, with the pruned slots."""
    model, done = bench.copy(), 0
    for level in (level for level in levels if level <= len(order)):
        if level > done:
            surgery.prune(model, bench.heads, order[done:level])
            done = level
        yield frozenset(order[:level]), model


def rate(measured: Sequence[Measured]) -> dict[str, float]:
    """Compute tokens per second: the median over rounds, and the slowest and the fastest."""
    seconds, tokens = [one.seconds for one in measured], measured[0].tokens
    row = {"tokens": tokens, "seconds": rounded(statistics.median(seconds))}
    row["tokens_per_second"] = rounded(tokens / row["seconds"])
    row["lowest_tokens_per_second"] = rounded(tokens / max(seconds))
    row["highest_tokens_per_second"] = rounded(tokens / min(seconds))
    return row


def quality(texts: Sequence[str], wanted: Sequence[str]) -> dict[str, float]:
    """Average the metrics over the texts that are long enough to have a value, and count words and texts.

    A model that writes almost nothing repeats nothing: the counts show this.
    """
    words = [len(text.split()) for text in texts]
    row = {"words": rounded(statistics.mean(words)), "texts": len(texts)}
    row["texts_judged"] = sum(count > 1 for count in words)  # by all metrics; one word has only a diversity
    for name in wanted:
        values = [METRICS[name].of_words(text.split()) for text in texts]
        values = [value for value in values if not math.isnan(value)]
        row[name] = rounded(statistics.mean(values)) if values else math.nan
    return row


def measure(
    bench: Loaded,
    measure_one: Callable[[nn.Module], Measured],
    *,
    orders: Mapping[str, Sequence[Slot]],
    levels: int,
    metrics: Sequence[str],
) -> pd.DataFrame:
    """Make a row for each strategy and level, with text metrics where the model writes."""
    heads = bench.heads
    wanted = counts(heads.shape[0] * heads.shape[1], levels)
    measured: dict[frozenset, list[Measured]] = defaultdict(list)
    sizes: dict[frozenset, dict[str, Any]] = {}
    for _ in progress(range(ROUNDS), "round", ROUNDS):
        fresh = set()  # the whole model, and the one without heads, are in every order
        for order in orders.values():
            for gone, model in sweep(bench, order, wanted):
                if gone not in fresh:
                    fresh.add(gone)
                    measured[gone].append(repeatably(lambda model=model: measure_one(model)))
                    pruned = heads.total - heads.left(model)
                    sizes[gone] = {"heads_pruned": pruned, "fraction_pruned": pruned / heads.total}
                    sizes[gone]["parameters"] = count(model)
    rows = []
    for strategy, order in orders.items():
        for gone in (frozenset(order[:level]) for level in wanted if level <= len(order)):
            row = {"strategy": strategy, **sizes[gone], **rate(measured[gone])}
            if texts := measured[gone][0].texts:
                row |= quality(texts, [name for name in metrics if METRICS[name].of_words])
                row["text"] = texts[0].strip()
            rows.append(row)
    log.info("%d levels of %d strategies, medians of %d", len(wanted), len(orders), ROUNDS)
    return pd.DataFrame(rows)
