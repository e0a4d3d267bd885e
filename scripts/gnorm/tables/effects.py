"""By how many points of accuracy the solution's strategy is above each other one, with intervals.

All along (the difference of the areas), and with a quarter, half and three quarters of the heads pruned; runs are
averaged. An interval that covers zero does not tell the two apart. `rows` and `trials` are what was resampled.
"""

import pandas as pd

from gnorm.published.evidence import rows_known
from gnorm.statistics.estimates import difference, interval, source_of
from gnorm.statistics.readings import AREA, at
from gnorm.statistics.results import Results

NEEDS = ("tidy",)
OUTCOMES = ("runs", "trials")
SHOWN = ("strategy", "intervals")
PUBLISHED = "effects"
READINGS = {"area": AREA, **{f"at {share:.0%}": at(share) for share in (0.25, 0.5, 0.75)}}
COLUMNS = [name + end for name in READINGS for end in ("", " low", " high")]
DECIMALS = dict.fromkeys(COLUMNS, 1)


def make(results: Results, settings: dict) -> pd.DataFrame:
    source = source_of(results, settings["intervals"], rows_known(results.tidy()))
    ranked, rows = settings["strategy"], []
    for model, title in results.models.items():
        for other in results.strategies:
            found = {name: difference(source, model, ranked, other, own) for name, own in READINGS.items()}
            first = next((estimate for estimate in found.values() if pd.notna(estimate.value)), None)
            if first is None:  # not there, or the same
                continue
            row = {"model": title, "strategy": ranked, "against": other, "runs": len(first.runs)}
            row |= {"rows": first.rows, "trials": first.trials}
            for name, estimate in found.items():
                points = {name: estimate.value, **interval(estimate, f"{name} ")}
                row |= {column: 100 * value for column, value in points.items()}
            rows.append(row)
    return pd.DataFrame(rows, columns=["model", "strategy", "against", "runs", "rows", "trials", *COLUMNS])
