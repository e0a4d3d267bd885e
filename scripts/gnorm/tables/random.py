"""Random pruning at each level, and the share of random trials that the solution's strategy beats there."""

import pandas as pd

from gnorm.results import Results, curves

NEEDS = ("tidy",)
DECIMALS: dict[str, int] = {}


def make(results: Results, settings: dict) -> pd.DataFrame:
    tidy, rows = results.tidy(), []
    names = [name for name, entry in results.strategies.items() if entry["score"] == "random"]
    for model, title in results.models.items():
        ranked = curves(tidy, model, settings["strategy"])[0].set_index("heads_pruned")["accuracy"]
        for name in names:
            trials = tidy[(tidy["model"] == model) & (tidy["strategy"] == name)]
            for pruned, group in trials.groupby("heads_pruned"):
                reached = ranked.get(pruned, float("nan"))
                row = {"model": title, "strategy": name, "heads pruned": pruned, "trials": len(group)}
                row |= {"lowest": group["accuracy"].min(), "median": group["accuracy"].median()}
                row |= {"mean": group["accuracy"].mean(), "highest": group["accuracy"].max()}
                row |= {settings["strategy"]: reached, "share beaten": (group["accuracy"] < reached).mean()}
                rows.append(row)
    return pd.DataFrame(rows)
