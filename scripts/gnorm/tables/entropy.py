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
        diagnostics = results.entropy(model)
        rows.append(
            {
                "model": title,
                "rows": diagnostics["rows"],
                "epsilon": f"{diagnostics['epsilon']:g}",
                "heads with NaN in A": diagnostics["heads_with_nan"],
                "heads with Inf in A": diagnostics["heads_with_inf"],
                "largest B - A": diagnostics["largest_shift"]["B"]["value"],
                "largest C - A": diagnostics["largest_shift"]["C"]["value"],
                "order of C is that of A": diagnostics["same_order"]["C"],
                "tau C, A": diagnostics["kendall_tau"]["C"],
                "tau B, A": diagnostics["kendall_tau"]["B"],
            }
        )
    return pd.DataFrame(rows)
