"""Numerical behaviour of the entropy variants (the paper's Appendix C as a measurement).

A is taken as written for the non-finite counts and with 0 log 0 = 0 for everything else.
"""

import pandas as pd

from gnorm.statistics.results import Results

NEEDS = ("entropy",)
DECIMALS = {"largest B - A": 9, "largest C - A": 9, "tau C, A": 6, "tau B, A": 6}


def make(results: Results, settings: dict) -> pd.DataFrame:
    rows = []
    for model, title in results.models.items():
        found = results.entropy(model)
        rows.append(
            {
                "model": title,
                "rows": found["rows"],
                "epsilon": f"{found['epsilon']:g}",
                "heads with NaN in A": found["heads_with_nan"],
                "heads with Inf in A": found["heads_with_inf"],
                "largest B - A": found["largest_shift"]["B"]["value"],
                "largest C - A": found["largest_shift"]["C"]["value"],
                "order of C is that of A": found["same_order"]["C"],
                "tau C, A": found["kendall_tau"]["C"],
                "tau B, A": found["kendall_tau"]["B"],
            }
        )
    return pd.DataFrame(rows)
