"""Area under the accuracy curve, and accuracy with a quarter, half and three quarters of the heads pruned.

`area` is run 0 (for random pruning the mean over trials); ± is the standard deviation over
runs (for random pruning over trials).
"""

import pandas as pd

from gnorm.statistics.curves import accuracy_at, area
from gnorm.statistics.results import Results, curves

NEEDS = ("tidy",)
PUBLISHED = "areas"
SHARES = (0.25, 0.5, 0.75)
DECIMALS: dict[str, int] = {}


def make(results: Results, settings: dict) -> pd.DataFrame:
    tidy, rows = results.tidy(), []
    for model, title in results.models.items():
        for strategy, entry in results.strategies.items():
            measured = []
            for curve in curves(tidy, model, strategy):
                fraction, accuracy = curve["fraction_pruned"].tolist(), curve["accuracy"].tolist()
                at = {f"at {share:.0%}": accuracy_at(fraction, accuracy, share) for share in SHARES}
                measured.append({"area": area(fraction, accuracy), **at})
            if not measured:
                continue  # not published
            table = pd.DataFrame(measured)
            point = table.mean() if entry["drawn"] else table.iloc[0]
            row = {"model": title, "strategy": strategy, "curves": len(table)}
            row |= {"area": point["area"], "area mean": table["area"].mean(), "area ±": table["area"].std()}
            for share in SHARES:
                name = f"at {share:.0%}"
                row |= {name: point[name], f"{name} ±": table[name].std()}
            rows.append(row)
    return pd.DataFrame(rows)
