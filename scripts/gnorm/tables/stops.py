"""Accuracy before and after pruning, at the stop point found here and at the paper's hand-picked one.

The stop point is the most pruned heads whose accuracy is at least a0 - tolerance (a0 - aN), with a0 the
unpruned accuracy and aN that without heads. The hand-picked columns are the accuracy half of the paper's
Table 1.
"""

import pandas as pd

from gnorm.published.paper import same_model
from gnorm.statistics.curves import stop_point
from gnorm.statistics.results import Results, curves, total_heads

NEEDS = ("tidy",)
SHOWN = ("strategy", "tolerance")
PUBLISHED = "stops"
DECIMALS = {"before (%)": 2, "after (%)": 2, "decrease (%)": 2, "picked: after (%)": 2, "picked: decrease (%)": 2}


def make(results: Results, settings: dict) -> pd.DataFrame:
    tidy, rows = results.tidy(), []
    for model, title in results.models.items():
        runs = curves(tidy, model, settings["strategy"])
        if not runs or runs[0]["fraction_pruned"].iloc[-1] < 1:  # not published, or ended early
            continue
        pruned, accuracy = runs[0]["heads_pruned"].tolist(), runs[0]["accuracy"].tolist()
        step = stop_point(accuracy, accuracy[-1], settings["tolerance"])
        row = {"model": title, "heads": total_heads(tidy, model), "before (%)": 100 * accuracy[0]}
        row |= {"pruned": pruned[step], "after (%)": 100 * accuracy[step]}
        row["decrease (%)"] = 100 * (1 - accuracy[step] / accuracy[0])
        reported = same_model(model, row["heads"])
        if reported and reported.pruned in pruned:
            after = accuracy[pruned.index(reported.pruned)]
            row |= {"picked": reported.pruned, "picked: after (%)": 100 * after}
            row["picked: decrease (%)"] = 100 * (1 - after / accuracy[0])
        rows.append(row)
    columns = ["model", "heads", "before (%)", "pruned", "after (%)", "decrease (%)"]
    return pd.DataFrame(rows, columns=[*columns, "picked", "picked: after (%)", "picked: decrease (%)"])
