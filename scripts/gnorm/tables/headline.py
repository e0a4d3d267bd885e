"""Area under the accuracy curve of every strategy, a column a model.

Run 0 ± the standard deviation over runs; for random pruning the mean over its trials ± the deviation over all.
"""

import pandas as pd

from gnorm.statistics.areas import points
from gnorm.statistics.results import Results

NEEDS = ("tidy",)
PUBLISHED = "headline"
DECIMALS: dict[str, int] = {}


def make(results: Results, settings: dict) -> pd.DataFrame:
    by_strategy = points(results).set_index(["strategy", "model"])
    rows = []
    for strategy in results.strategies:
        row = {"strategy": strategy}
        for model, title in results.models.items():
            if (strategy, model) not in by_strategy.index:
                row[title] = "not published"
                continue
            point, spread = by_strategy.loc[(strategy, model), ["area", "area ±"]]
            row[title] = "-" if pd.isna(point) else f"{point:.3f}" + ("" if pd.isna(spread) else f" ± {spread:.3f}")
        rows.append(row)
    return pd.DataFrame(rows)
