"""Every metric unpruned and with a quarter, half and three quarters of the heads pruned, by strategy.

Run 0 (for random pruning the mean over its trials), between two steps linearly; ± is the standard deviation over runs
(over trials, of all runs where each has its own). `better` says which way is good. Accuracy and perplexity of language
models are of next tokens.
"""

import pandas as pd

from gnorm.engine.metrics import METRICS, at_steps, title
from gnorm.statistics.curves import accuracy_at
from gnorm.statistics.results import Results, curves, of_run_0

NEEDS = ("tidy",)
SHOWN = ("metrics", "tasks")
SHARES = (0.0, 0.25, 0.5, 0.75)
DECIMALS: dict[str, int] = {}


def make(results: Results, settings: dict) -> pd.DataFrame:
    tidy, rows = results.tidy(), []
    for model, shown in results.models.items():
        task = settings["tasks"][model]
        for metric in ("accuracy", *at_steps(settings["metrics"][task])):
            for strategy in results.strategies:
                found = curves(tidy, model, strategy)
                values = pd.DataFrame([at_shares(curve, metric) for curve in found])
                if values.empty:
                    continue
                point = values[: len(of_run_0(found))].mean()
                row = {"model": shown, "metric": title(metric, task), "better": METRICS[metric].better}
                row |= {"strategy": strategy, "unpruned": point[0.0]}
                for share in SHARES[1:]:
                    row |= {f"at {share:.0%}": point[share], f"at {share:.0%} ±": values[share].std()}
                rows.append(row)
    return pd.DataFrame(rows)


def at_shares(curve: pd.DataFrame, metric: str) -> dict[float, float]:
    return {share: accuracy_at(curve["fraction_pruned"].tolist(), curve[metric].tolist(), share) for share in SHARES}
