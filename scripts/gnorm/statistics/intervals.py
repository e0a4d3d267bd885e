"""Estimates with intervals, from what was answered on every evaluation row; numpy alone.

What is read off an accuracy curve (`gnorm.statistics.readings`) is a sum over rows, so that a bootstrap over rows is
one product with a matrix of how often each row is drawn. Strategies meet the same rows: their difference is resampled
row by row.

What an interval covers depends on the number of runs. With fewer than five it is about these runs' models, on rows like
the evaluation rows: runs are averaged row by row, and each run's own value is there to be shown. With five or more it
is about runs like these: they are resampled too. Trials of random pruning are always resampled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Self

import numpy as np

from gnorm.statistics.outcomes import Outcomes
from gnorm.statistics.readings import AREA, Reading

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
FEWEST = 5  # runs that can be resampled
BLOCK = 2**21  # rows that are drawn at once, over all resamples


@dataclass(frozen=True, eq=False)
class Lines:
    """What every row adds to a number, a line for each run or trial.

    The number is the sum of a line, divided by that of the rows' answers.
    """

    values: np.ndarray  # lines x rows
    answers: np.ndarray  # of each row
    row: np.ndarray  # the rows' numbers in the dataset
    curves: tuple[int, ...]  # the run or trial of each line

    @property
    def estimates(self) -> np.ndarray:
        return self.values.sum(1) / self.answers.sum()


def lines_of(outcomes: Outcomes, reading: Reading = AREA) -> Lines:
    """Make the lines of what is read off every curve; of the other rows, where every other row chooses the points."""
    if outcomes.criterion is not None and len(set(outcomes.criterion)) > 1:
        raise ValueError("runs of several criteria are no lines of one number: choose one with `of_criterion`")
    curves = tuple(dict.fromkeys(outcomes.curve.tolist()))
    answers, right = outcomes.answers.astype(np.float64), outcomes.right
    choosing, measuring = (slice(0, None, 2), slice(1, None, 2)) if reading.is_chosen else (slice(None), slice(None))
    values = []
    for curve in curves:
        points = outcomes.curve == curve
        accuracy = right[points, choosing].sum(1) / max(answers[choosing].sum(), 1)
        own = reading.weigh(outcomes.fraction_pruned[points], accuracy)
        values.append(own @ right[points, measuring].astype(np.float64))
    return Lines(np.array(values), answers[measuring], outcomes.row[measuring], curves)


def _beside(one: Lines, others: Sequence[Lines]) -> None:
    if not all(np.array_equal(one.row, other.row) for other in others):
        raise ValueError("strategies that were measured on different rows cannot be compared row by row")


@dataclass(frozen=True, eq=False)
class Contrast:
    """What is estimated: a curve's number, or by how much it exceeds another's, run by run.

    `trials` has the random trials of each run, or once if all runs share them. What counts is how far the number is
    above `above`.
    """

    lines: Lines
    trials: tuple[Lines, ...] = ()
    is_difference: bool = True
    above: float = 0.0

    @classmethod
    def of(cls, one: Lines, above: float = 0.0) -> Self:
        return cls(one, is_difference=False, above=above)

    @classmethod
    def between(cls, one: Lines, other: Lines) -> Self:
        """The difference of two strategies in the runs that both have."""
        _beside(one, [other])
        runs = tuple(run for run in one.curves if run in other.curves)
        if not runs:
            raise ValueError(f"no run is in both: {one.curves}, {other.curves}")
        first, second = (lines.values[[lines.curves.index(run) for run in runs]] for lines in (one, other))
        return cls(replace(one, values=first - second, curves=runs))

    @classmethod
    def with_random(cls, one: Lines, trials: Lines | Mapping[int, Lines]) -> Self:
        """The difference to the mean of random trials: of the same for all runs, or of each run's own."""
        shared = isinstance(trials, Lines)
        of_runs = [trials if shared else trials[run] for run in one.curves]
        _beside(one, of_runs)
        means = np.array([own.values.mean(0) for own in of_runs])
        return cls(replace(one, values=one.values - means), tuple(of_runs[:1] if shared else of_runs))

    @classmethod
    def of_random(cls, trials: Lines | Mapping[int, Lines]) -> Self:
        """The mean of random trials."""
        of_runs = {0: trials} if isinstance(trials, Lines) else trials
        means = np.array([own.values.mean(0) for own in of_runs.values()])
        first = next(iter(of_runs.values()))
        return cls(replace(first, values=means, curves=tuple(of_runs)), tuple(of_runs.values()), is_difference=False)

    @property
    def pooled(self) -> np.ndarray:
        """Each row's mean over runs."""
        return self.lines.values.mean(0)

    @property
    def added(self) -> tuple[float, ...]:
        """Further rows, so that few rows that differ, or none that is wrong, never pass for certainty.

        Two that are right and two that are wrong at every step (Agresti and Coull); for a difference one for and one
        against, as large as is usual among the rows that differ (Agresti and Min).
        """
        if not self.is_difference:
            whole = self.lines.answers.mean()
            return whole, whole, 0.0, 0.0
        differing = self.pooled[self.pooled != 0]
        # If no row differs, a difference has no size to go by. A threshold asks how large it may still be.
        largest = self.lines.answers.mean() if self.above else 0.0
        usual = np.sqrt(np.mean(differing**2)) if len(differing) else largest
        return usual, -usual


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float
    p: float  # of no difference (or none from a threshold), two-sided; NaN of what is none
    variances: dict[str, float]  # what rows, runs and trials add to the variance
    runs: tuple[float, ...]  # the value of each run
    rows: int
    trials: int  # of random pruning, in all runs

    @property
    def error(self) -> float:
        """The standard error."""
        return math.sqrt(sum(self.variances.values()))


def decide(estimate: Estimate) -> str:
    """Decide the claim that a difference is above zero: its interval must not cover zero.

    Of fewer than five runs none may be on the other side.
    """
    for status, sign, nearer in ((HOLDS, 1, estimate.low), (FAILS, -1, -estimate.high)):
        agree = len(estimate.runs) >= FEWEST or all(sign * run >= 0 for run in estimate.runs)
        if nearer > 0 and agree:
            return status
    return UNDECIDED


def drawn(rows: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield how often each row is drawn, resamples x rows, some resamples at once."""
    rng, some = np.random.default_rng(seed), max(1, BLOCK // rows)
    for first in range(0, resamples, some):
        size = min(some, resamples - first)
        chosen = rng.integers(rows, size=(size, rows)) + rows * np.arange(size)[:, None]
        yield np.bincount(chosen.ravel(), minlength=size * rows).reshape(size, rows).astype(np.float64)


@dataclass(frozen=True)
class Bootstrap:
    """Resampling with the settings of the configuration; every estimate draws the same rows.

    Intervals are percentiles: basic and BCa ones covered no better in simulations, and worse where few rows differ.
    """

    level: float
    resamples: int
    seed: int

    def estimate(self, *contrasts: Contrast) -> list[Estimate]:
        """Estimate contrasts of the same rows, with one product of matrices; NaN where a curve does not get so far."""
        draws = {contrast: np.full(self.resamples, np.nan) for contrast in contrasts}
        whole = [contrast for contrast in contrasts if np.isfinite(contrast.lines.values).all()]
        for kind in (True, False):
            alike = [contrast for contrast in whole if contrast.is_difference == kind]
            draws |= zip(alike, self._resampled(alike).T if alike else (), strict=True)
        return [self._estimate(contrast, draws[contrast]) for contrast in contrasts]

    def _resampled(self, contrasts: Sequence[Contrast]) -> np.ndarray:
        """Values in resampled rows, resamples x contrasts."""
        answers, more = contrasts[0].lines.answers, len(contrasts[0].added)
        values = [np.append(contrast.pooled, contrast.added) for contrast in contrasts]
        both = np.array([*values, np.append(answers, np.full(more, answers.mean()))]).T
        sums = np.concatenate([times @ both for times in drawn(len(both), self.resamples, self.seed)])
        return sums[:, :-1] / sums[:, -1:]

    def _estimate(self, contrast: Contrast, draws: np.ndarray) -> Estimate:
        lines, runs, rng = contrast.lines, contrast.lines.estimates, np.random.default_rng([self.seed, 1])
        variances = {"rows": draws.var(), "runs": 0.0, "trials": 0.0}
        if len(runs) >= FEWEST:
            shifts = _shifts(lines)
            draws, variances["runs"] = draws + self._means(shifts, rng), np.mean(shifts**2) / len(runs)
        # Where runs are resampled, the trials that each run has of its own are resampled with it.
        for trials in contrast.trials if len(runs) < FEWEST or len(contrast.trials) < len(runs) else ():
            shifts = _shifts(trials) / (-len(contrast.trials) if contrast.is_difference else len(contrast.trials))
            draws = draws + self._means(shifts, rng)
            variances["trials"] += np.mean(shifts**2) / len(shifts)
        low, high = np.quantile(draws, [(1 - self.level) / 2, (1 + self.level) / 2])
        if not contrast.is_difference:
            low, high = np.clip([low, high], 0, 1)
        above, runs = contrast.above, runs - contrast.above
        beyond = 1 + min((draws <= above).sum(), (draws >= above).sum())
        is_known = (contrast.is_difference or above) and not np.isnan(low)
        return Estimate(
            value=float(runs.mean()),
            low=float(low - above),
            high=float(high - above),
            p=min(1.0, float(2 * beyond / (1 + self.resamples))) if is_known else math.nan,
            variances={name: float(variance) for name, variance in variances.items()},
            runs=tuple(runs.tolist()),
            rows=len(lines.answers),
            trials=sum(len(trials.curves) for trials in contrast.trials),
        )

    def _means(self, shifts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Means of resampled runs or trials, stretched by chance as Student's t stretches a normal.

        Their variance is known from few: without that, intervals of five runs cover 88% instead of 95%.
        """
        few = len(shifts)
        if few < 2:
            return np.full(self.resamples, np.nan)  # one says nothing about others
        means = shifts[rng.integers(few, size=(self.resamples, few))].mean(1)
        return means * np.sqrt((few - 1) / rng.chisquare(few - 1, self.resamples))


def _shifts(lines: Lines) -> np.ndarray:
    """Deviations of runs or trials from their mean, with the variance that is not due to which rows were drawn.

    Rows are resampled already. NaN for a single run or trial: its variance is not known.
    """
    estimates, (count, rows) = lines.estimates, lines.values.shape
    if count < 2:
        return np.full(count, np.nan)
    shifts = (estimates - estimates.mean()) * math.sqrt(count / (count - 1))
    own = (lines.values - estimates[:, None] * lines.answers) / lines.answers.mean()
    by_rows = ((own - own.mean(0)) ** 2).sum() / ((count - 1) * (rows - 1) * rows)
    variance = np.mean(shifts**2)
    return shifts * math.sqrt(max(0.0, 1 - by_rows / variance)) if variance else shifts


def needed(estimate: Estimate, what: str, level: float, power: float = 0.8) -> int | None:
    """How many rows, runs or trials would decide a difference as large as the estimate's; None if no number would.

    The others stay as they are. It takes two runs to know how they vary, and at least five are asked for.
    """
    parts, normal = dict(estimate.variances), NormalDist()
    now = {"rows": estimate.rows, "runs": len(estimate.runs), "trials": estimate.trials}
    if what == "runs" and now["runs"] < FEWEST:  # how they vary is not in the interval
        parts["runs"] = np.var(estimate.runs, ddof=1) / now["runs"] if now["runs"] > 1 else math.nan
    allowed = (estimate.value / (normal.inv_cdf((1 + level) / 2) + normal.inv_cdf(power))) ** 2
    left = allowed - sum(variance for name, variance in parts.items() if name != what)
    if not left > 0 or math.isnan(parts[what]):
        return None
    return max(math.ceil(now[what] * parts[what] / left), FEWEST if what == "runs" else 2)
