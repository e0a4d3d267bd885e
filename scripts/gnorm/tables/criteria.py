"""Criteria side by side: area under the accuracy curve, and what a score costs.

Each criterion is taken once on the unpruned model, and heads are pruned in its order, least important first; accuracy
is measured at the levels of random pruning, whose trials are the last line. `area` is run 0 (of random pruning the
mean over trials), ± the standard deviation over runs (trials); `low` and `high` are the interval of the mean over runs.
Criteria that share a letter of `group` cannot be told apart, over all pairs (Holm). `forward` and `backward` say how
often each calibration row goes through the model for one score. `like` is Spearman's correlation with the order of the
first criterion. `noise` is the median standard error of a head's score, of criteria that know theirs, over the standard
deviation of the scores among heads: near 1 the order is chance, and more samples would give another. Accuracy of
language models is of next tokens.
"""

from collections.abc import Sequence

import pandas as pd

from gnorm.statistics.comparisons import compare
from gnorm.statistics.curves import accuracy_at, area
from gnorm.statistics.estimates import OfRows, interval
from gnorm.statistics.intervals import Bootstrap
from gnorm.statistics.results import Results, curves, importance, of_run_0

NEEDS = ("criteria", "tidy")
OUTCOMES = ("trials", "compared")
SHOWN = ("intervals",)
DECIMALS = {"forward": 0, "backward": 0}


def make(results: Results, settings: dict) -> pd.DataFrame:
    tidy, rows = results.tidy(), []
    source = OfRows(Bootstrap(**settings["intervals"]), **results.outcomes)
    drawn = [name for name, entry in results.strategies.items() if entry["drawn"]]
    for model, title in results.models.items():
        costs = results.score_costs(model).set_index("criterion")
        measured_curves = results.score_curves(model)
        scores = results.scores(model)
        ranks = importance(scores)
        told_apart = apart(source, model, costs.index, drawn)
        for name in costs.index:
            runs = [curve for _, curve in measured_curves[measured_curves["criterion"] == name].groupby("run")]
            row = {"model": title, "criterion": name, **measured(runs, runs[:1])}
            like = ranks[ranks.columns[0]].corr(ranks[name])
            first = scores[(scores["criterion"] == name) & (scores["run"] == 0)]
            row |= told_apart[name]
            rows.append(row | {"like": like, "noise": noise(first)} | costs.loc[name].to_dict())
        for name in drawn:
            trials = curves(tidy, model, name)
            row = {"model": title, "criterion": name, **measured(trials, of_run_0(trials)), **told_apart[name]}
            rows.append(row | {"forward": 0, "backward": 0})
    first = f"like {rows[0]['criterion']}"
    table = pd.DataFrame(rows).rename(columns={"like": first})
    return table.astype({"forward": "Int64", "backward": "Int64"})


def apart(source: OfRows, model: str, criteria: Sequence[str], drawn: Sequence[str]) -> dict[str, dict]:
    """The interval of each area, and the letters of those that cannot be told apart."""
    named = {name: source.lines(model, name, is_criterion=True) for name in criteria}
    found = compare(source.bootstrap, named, {name: source.lines(model, name) for name in drawn})
    return {name: {**interval(own), "group": found.groups[name]} for name, own in found.estimates.items()}


def noise(scored: pd.DataFrame) -> float:
    """The typical standard error over the spread of scores; NaN without errors or if all heads score the same."""
    spread = scored["score"].std()
    return scored["error"].median() / spread if spread else float("nan")


def measured(runs: list[pd.DataFrame], shown: list[pd.DataFrame]) -> dict[str, float]:
    """Average area and accuracy at half of the heads over the curves `shown`; the spread is over all `runs`."""
    areas = [area(curve["fraction_pruned"].tolist(), curve["accuracy"].tolist()) for curve in runs]
    half = [accuracy_at(curve["fraction_pruned"].tolist(), curve["accuracy"].tolist(), 0.5) for curve in shown]
    return {
        "area": pd.Series(areas[: len(shown)]).mean(),
        "area mean": pd.Series(areas).mean(),
        "area ±": pd.Series(areas).std(),
        "at 50%": pd.Series(half).mean(),
    }
