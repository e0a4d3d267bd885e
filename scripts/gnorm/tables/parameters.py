"""Parameters, their share and megabytes of every module before and after pruning (the paper's Tables 2 to 5)."""

import pandas as pd

from gnorm.statistics.results import Results

NEEDS = ("solutions",)
DECIMALS = {"share before (%)": 2, "MB before": 2, "share after (%)": 2, "MB after": 2}


def make(results: Results, settings: dict) -> pd.DataFrame:
    tables = [results.modules(model).assign(model=title) for model, title in results.models.items()]
    joined = pd.concat(tables, ignore_index=True)
    return joined[["model", *(c for c in joined if c != "model")]]
