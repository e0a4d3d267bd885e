"""Random pruning at each level, and the share of random trials that the solution's strategy beats there.

`from` and `to` are Wilson's 95% interval of that share, for as many trials. Where each run has a model of its own, a
trial is compared with the run on its model; the strategy's column is run 0.
"""

import pandas as pd

from gnorm.statistics.curves import wilson
from gnorm.statistics.results import Results, curves

NEEDS = ("tidy",)
SHOWN = ("strategy",)
PUBLISHED = "random"
DECIMALS: dict[str, int] = {}


def make(results: Results, settings: dict) -> pd.DataFrame:
    tidy, rows = results.tidy(), []
    ranked = settings["strategy"]
    for model, title in results.models.items():
        runs = curves(tidy, model, ranked)
        if not runs:
            continue  # not published
        reached = [run.set_index("heads_pruned")["accuracy"] for run in runs]
        for name in (name for name, entry in results.strategies.items() if entry["drawn"]):
            trials = tidy[(tidy["model"] == model) & (tidy["strategy"] == name)]
            for pruned, group in trials.groupby("heads_pruned"):
                drawn, at = group["accuracy"], [run.get(pruned, float("nan")) for run in reached]
                own = group["run"].fillna(0).map(dict(enumerate(at)))
                beaten = (drawn < own).mean() if own.notna().all() else float("nan")
                summary = (drawn.min(), drawn.median(), drawn.mean(), drawn.max(), at[0], beaten)
                rows.append((title, name, pruned, len(group), *summary, *wilson(beaten, len(group))))
    columns = ["model", "strategy", "heads pruned", "trials", "lowest", "median", "mean", "highest", ranked]
    return pd.DataFrame(rows, columns=[*columns, "share beaten", "from", "to"])
