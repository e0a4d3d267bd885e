"""Areas and accuracies of all curves of a suite, as points with their spread."""

from __future__ import annotations

import pandas as pd

from gnorm.statistics.curves import accuracy_at, area
from gnorm.statistics.results import Results, curves, of_run_0

SHARES = (0.25, 0.5, 0.75)


def points(results: Results) -> pd.DataFrame:
    """Make a row for each model (by name) and strategy: run 0, or the mean over its trials, and the spread."""
    tidy, rows = results.tidy(), []
    for model in results.models:
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
            row = {"model": model, "strategy": strategy, "curves": len(table)}
            row |= {"area": point["area"], "area mean": table["area"].mean(), "area ±": table["area"].std()}
            for share in SHARES:
                name = f"at {share:.0%}"
                row |= {name: point[name], f"{name} ±": table[name].std()}
            rows.append(row)
    return pd.DataFrame(rows)
