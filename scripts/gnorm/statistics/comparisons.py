"""All pairs of criteria: how sure their differences are, and which criteria cannot be told apart; numpy alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count
from string import ascii_lowercase

import numpy as np

from gnorm.statistics.intervals import UNDECIDED, Bootstrap, Contrast, Estimate, Lines, decide


@dataclass(frozen=True)
class Pair:
    one: str
    other: str
    estimate: Estimate  # of the difference
    p: float  # corrected for all pairs (Holm)
    differ: bool


@dataclass(frozen=True)
class Comparison:
    estimates: dict[str, Estimate]  # by name, best first
    pairs: list[Pair]
    groups: dict[str, str]  # letters; who share one cannot be told apart


def compare(
    bootstrap: Bootstrap, named: Mapping[str, Lines], trials: Mapping[str, Lines | Mapping[int, Lines]] | None = None
) -> Comparison:
    """Compare all pairs, beside those in `named` random orders by their `trials`."""
    drawn = trials or {}
    pairs = [(a, b) for a, b in combinations([*named, *drawn], 2) if a in named]  # random orders are not compared
    # The least p that resampling can find must survive the correction.
    enough = max(bootstrap.resamples, math.ceil(4 * len(pairs) / (1 - bootstrap.level)))
    bootstrap = replace(bootstrap, resamples=enough)
    alone = {name: Contrast.of(own) for name, own in named.items()}
    alone |= {name: Contrast.of_random(own) for name, own in drawn.items()}
    estimates = dict(zip(alone, bootstrap.estimate(*alone.values()), strict=True))
    contrasts = [
        Contrast.between(named[a], named[b]) if b in named else Contrast.with_random(named[a], drawn[b])
        for a, b in pairs
    ]
    found = bootstrap.estimate(*contrasts)
    corrected = holm([estimate.p for estimate in found])
    told = [
        Pair(a, b, estimate, p, p <= 1 - bootstrap.level and decide(estimate) != UNDECIDED)
        for (a, b), estimate, p in zip(pairs, found, corrected, strict=True)
    ]
    best = sorted(estimates, key=lambda name: -estimates[name].value)
    apart = {frozenset((pair.one, pair.other)) for pair in told if pair.differ}
    return Comparison({name: estimates[name] for name in best}, told, letters(best, apart))


def holm(chances: Sequence[float]) -> list[float]:
    """Correct p-values for their number (Holm 1979); NaN counts as 1."""
    values = np.nan_to_num(np.array(chances, float), nan=1.0)
    order = values.argsort(kind="stable")
    corrected = np.empty(len(values))
    corrected[order] = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return corrected.clip(max=1).tolist()


def letters(names: Sequence[str], apart: Collection[frozenset[str]]) -> dict[str, str]:
    """Give each name the letters of its groups: two names share a letter unless they are `apart` (Piepho 2004)."""
    groups = [set(names)]
    for pair in sorted(map(sorted, apart)):
        for group in [group for group in groups if set(pair) <= group]:
            groups.remove(group)
            groups += [group - {name} for name in pair]
        groups = [
            own for i, own in enumerate(groups) if not any(own < other for other in groups) and own not in groups[:i]
        ]
    groups.sort(key=lambda group: sorted(map(list(names).index, group)))
    found = dict.fromkeys(names, "")
    for letter, group in zip(_alphabet(), groups, strict=False):
        for name in group:
            found[name] += letter
    return found


def _alphabet() -> Iterator[str]:
    for number in count():
        yield ascii_lowercase[number % 26] * (number // 26 + 1)
