"""Area under the accuracy curve of every strategy, a column a model: mean over runs, ± standard deviation."""

import pandas as pd

from gnorm.curves import area
from gnorm.results import Results, curves

NEEDS = ("tidy",)
DECIMALS: dict[str, int] = {}


def make(results: Results, settings: dict) -> pd.DataFrame:
    tidy = results.tidy()
    rows = []
    for strategy in results.strategies:
        row = {"strategy": strategy}
        for model, title in results.models.items():
            found = curves(tidy, model, strategy)
            areas = pd.Series([area(c["fraction_pruned"].tolist(), c["accuracy"].tolist()) for c in found])
            row[title] = "-" if areas.isna().any() else f"{areas.mean():.3f} ± {areas.std(ddof=0):.3f}"
        rows.append(row)
    return pd.DataFrame(rows)
