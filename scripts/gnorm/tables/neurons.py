"""Strategies that prune neurons: area under the accuracy curve, and accuracy with a share of the neurons pruned.

A step prunes one group of neurons of a feed-forward layer; `groups` is how many there are, tied ones counted in
every layer. Other columns are those of the table `areas`; heads stay.
"""

import pandas as pd

from gnorm.statistics.results import Results, total_heads
from gnorm.tables import areas

NEEDS = ("tidy",)
UNIT = "neurons"
DECIMALS: dict[str, int] = {}


def make(results: Results, settings: dict) -> pd.DataFrame:
    tidy, table = results.tidy(), areas.make(results, settings)
    groups = {title: total_heads(tidy, model) for model, title in results.models.items()}
    table.insert(2, "groups", table["model"].map(groups))
    return table
