"""Area under the accuracy curve, and accuracy with a quarter, half and three quarters of the heads pruned.

`area` is run 0 (for random pruning the mean over its trials); ± is the standard deviation over
runs (for random pruning over trials, of all runs where each has its own). `low` and `high` are the interval of the mean
over runs. `to` is the difference to that strategy, with its interval: one that covers zero does not tell the two apart.
"""

import pandas as pd

from gnorm.published.evidence import rows_known
from gnorm.statistics.areas import points
from gnorm.statistics.estimates import alone, difference, interval, source_of
from gnorm.statistics.results import Results

NEEDS = ("tidy",)
OUTCOMES = ("runs", "trials")
SHOWN = ("strategy", "intervals")
PUBLISHED = "areas"
DECIMALS: dict[str, int] = {}


def make(results: Results, settings: dict) -> pd.DataFrame:
    source = source_of(results, settings["intervals"], rows_known(results.tidy()))
    drawn = [name for name, entry in results.strategies.items() if entry["drawn"]]
    rows: list[dict] = []
    for row in points(results).to_dict("records"):
        model, strategy = row["model"], row["strategy"]
        row |= {"model": results.models[model], **interval(alone(source, model, strategy))}
        for other in (settings["strategy"], *drawn[:1]):
            above = difference(source, model, strategy, other)
            row |= {f"to {other}": above.value, **interval(above, f"to {other} ")}
        rows.append(row)
    return pd.DataFrame(rows)
