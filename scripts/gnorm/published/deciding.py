"""How claims are decided: by estimates with intervals, or by facts that are counted or compared exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gnorm.published.evidence import Evidence
from gnorm.statistics.estimates import Measure, Measured
from gnorm.statistics.intervals import FAILS, HOLDS, UNDECIDED, Estimate, decide, needed
from gnorm.statistics.readings import AREA

STATUS = {True: HOLDS, False: FAILS, None: UNDECIDED}  # of facts; None where rounds or runs do not tell
POWER = 0.8
NOTHING_ALONE = "no number of rows, trials or runs alone"


@dataclass(frozen=True)
class Found:
    text: str
    status: str
    estimate: Estimate | None = None  # the one that decides; None of facts
    takes: str = ""  # what would decide it

    @classmethod
    def of_fact(cls, text: str, holds: bool | None) -> Found:
        return cls(text, STATUS[holds])


@dataclass(frozen=True)
class Claim:
    """A claim holds if all its measures are above zero, or its fact says so."""

    says: str
    source: str  # where it is said, and in which words
    where: str  # the table or figure to look at
    by: str  # the deciding measure, in words
    measures: tuple[Measure, ...] | Callable[[Evidence, str], Sequence[Measure]] = ()
    fact: Callable[[Evidence, str], Found] | None = None
    beside: Callable[[Evidence, str], str] | None = None  # what else is said of it
    only: tuple[str, ...] = ()  # models, if not all


def found(claim: Claim, evidence: Evidence, model: str) -> Found:
    """Decide a claim for a model; raises `Missing`."""
    if claim.fact:
        return claim.fact(evidence, model)
    measures = claim.measures(evidence, model) if callable(claim.measures) else claim.measures
    measured = evidence.measured(model, list(measures))
    status, decisive = judged(measured, evidence.level)
    text = described(decisive, evidence.level)
    if len(measured) > 1:
        sure = sum(decide(each.estimate) == HOLDS for each in measured)
        text = f"surely so in {sure} of {len(measured)} comparisons; least so: {text}"
    if claim.beside:
        text += claim.beside(evidence, model)
    return Found(text, status, decisive.estimate, takes(decisive, evidence.level))


def judged(measured: Sequence[Measured], level: float) -> tuple[str, Measured]:
    """Decide whether all measures are above zero, and find the one that speaks against it the most.

    All must hold. To fail it takes one that would also fail if it were corrected for how many could have (Bonferroni).
    """
    statuses = [decide(each.estimate) for each in measured]
    surely = [
        each
        for each, status in zip(measured, statuses, strict=True)
        if status == FAILS and (len(measured) == 1 or each.estimate.p * len(measured) <= 1 - level)
    ]
    if surely:
        return FAILS, min(surely, key=lambda each: each.estimate.value)
    status = HOLDS if set(statuses) == {HOLDS} else UNDECIDED
    waiting = [each for each, own in zip(measured, statuses, strict=True) if own != HOLDS] or measured
    return status, min(waiting, key=lambda each: each.estimate.value)


def described(measured: Measured, level: float) -> str:
    """Say what was measured, and how sure it is."""
    measure, estimate = measured.measure, measured.estimate
    show = "{:.3f}".format if measure.reading is AREA else "{:.1%}".format
    text = f"{measure.reading.name} " + " against ".join(map(show, measured.values))
    if measure.above:
        text += f", {show(measure.above)} is asked"
    return f"{text}: {with_interval(estimate, level)}"


def with_interval(estimate: Estimate, level: float) -> str:
    """Write an estimate in points."""
    value, low, high = map(points, (estimate.value, estimate.low, estimate.high))
    if math.isnan(estimate.low):
        return f"{value} points, no interval"
    text = f"{value} points ({level:.0%} interval {low} to {high})"
    if contradicted(estimate):
        others = sum(run * estimate.value < 0 for run in estimate.runs)
        text += f", the other way in {others} of {len(estimate.runs)} runs"
    return text


def points(share: float) -> str:
    """Write a share in points, with its sign."""
    return f"{round(100 * share, 1) + 0.0:+.1f}"


def contradicted(estimate: Estimate) -> bool:
    """Whether the interval does not cover zero, and one of a few runs is on the other side."""
    return decide(estimate) == UNDECIDED and not math.isnan(estimate.low) and estimate.low * estimate.high > 0


def takes(measured: Measured, level: float) -> str:
    """Say how many rows, random trials or runs would decide a difference as large, with a power of 80%."""
    estimate, halves = measured.estimate, 2 if measured.measure.reading.is_chosen else 1
    if decide(estimate) != UNDECIDED or math.isnan(estimate.low):
        return ""
    kinds = {"rows": estimate.rows, "trials": estimate.trials, "runs": len(estimate.runs)}
    if contradicted(estimate):
        kinds = {"runs": kinds["runs"]}
    wanted = {kind: needed(estimate, kind, level, POWER) for kind, now in kinds.items() if now}
    said = [
        f"{count * (halves if kind == 'rows' else 1):,} {kind}"
        for kind, count in wanted.items()
        if count and count > kinds[kind]
    ]
    return " or ".join(said) if said else NOTHING_ALONE
