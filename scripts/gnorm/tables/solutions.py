"""Accuracy and size before and after pruning at the stop point (the paper's Table 1).

Point values are run 0; ± is the standard deviation over runs, each stopped at its own point.
"""

import pandas as pd

from gnorm.statistics.curves import megabytes, stop_point
from gnorm.statistics.results import Results, curves

NEEDS = ("tidy", "solutions")
SHOWN = ("tolerance",)
DECIMALS = {"accuracy before (%)": 2, "accuracy after (%)": 2, "accuracy ±": 2, "decrease (%)": 2, "pruned ±": 1}
DECIMALS |= {"size before (MB)": 2, "size after (MB)": 2, "size ±": 2, "reduction (%)": 2}


def make(results: Results, settings: dict) -> pd.DataFrame:
    tidy, rows = results.tidy(), []
    for model, title in results.models.items():
        solution = results.solution(model)
        accuracy, pruned, size = [], [], []
        for curve in curves(tidy, model, solution["strategy"]):
            values = curve["accuracy"].tolist()
            if solution["chosen"] == "fixed":
                reached = curve["heads_pruned"].tolist()
                if solution["heads_pruned"] not in reached:  # this run ended before it
                    continue
                step = reached.index(solution["heads_pruned"])
            else:
                step = stop_point(values, solution["all_pruned_accuracy"], settings["tolerance"])
            accuracy.append(100 * values[step])
            pruned.append(curve["heads_pruned"].iloc[step])
            size.append(megabytes(curve["parameters"].iloc[step]))
        before, after = solution["before"], solution["after"]
        rows.append(
            {
                "model": title,
                "heads": solution["heads"],
                "pruned": solution["heads_pruned"],
                "pruned ±": pd.Series(pruned).std(),
                "accuracy before (%)": 100 * before["accuracy"],
                "accuracy after (%)": 100 * after["accuracy"],
                "accuracy ±": pd.Series(accuracy).std(),
                "decrease (%)": 100 * (1 - after["accuracy"] / before["accuracy"]),
                "size before (MB)": before["megabytes"],
                "size after (MB)": after["megabytes"],
                "size ±": pd.Series(size).std(),
                "reduction (%)": 100 * (1 - after["megabytes"] / before["megabytes"]),
            }
        )
    return pd.DataFrame(rows)
