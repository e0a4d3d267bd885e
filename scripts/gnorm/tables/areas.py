"""Area under the accuracy curve, and accuracy with a quarter, half and three quarters of the heads pruned.

`area` is run 0 (for random pruning the mean over its trials); ± is the standard deviation over
runs (for random pruning over trials, of all runs where each has its own).
"""

import pandas as pd

from gnorm.statistics.curves import accuracy_at, area
from gnorm.statistics.results import Results, curves, of_run_0

NEEDS = ("tidy",)
PUBLISHED = "areas"
SHARES = (0.25, 0.5, 0.75)
DECIMALS: dict[str, int] = {}


def make(results: Results, settings: dict) -> pd.DataFrame:
    tidy, rows = results.tidy(), []
    for model, title in results.models.items():
        for strategy in results.strategies:
            measured, found = [], curves(tidy, model, strategy)
            for curve in found:
                fraction, accuracy = curve["fraction_pruned"].tolist(), curve["accuracy"].tolist()
                at = {f"at {share:.0%}": accuracy_at(fraction, accuracy, share) for share in SHARES}
                measured.append({"area": area(fraction, accuracy), **at})
            if not measured:
                continue  # not published
            table = pd.DataFrame(measured)
            point = table[: len(of_run_0(found))].mean()
            row = {"model": title, "strategy": strategy, "curves": len(table)}
            row |= {"area": point["area"], "area mean": table["area"].mean(), "area ±": table["area"].std()}
            for share in SHARES:
                name = f"at {share:.0%}"
                row |= {name: point[name], f"{name} ±": table[name].std()}
            rows.append(row)
    return pd.DataFrame(rows)
