"""Strategies that prune neurons: area under the accuracy curve, and accuracy with a share of the neurons pruned.

A step prunes one group of neurons of a feed-forward layer; `groups` is how many there are, tied ones counted in
every layer. Other columns are those of the table `areas`, without intervals; heads stay.
"""

import pandas as pd

from gnorm.statistics.areas import points
from gnorm.statistics.results import Results, total_heads

NEEDS = ("tidy",)
UNIT = "neurons"
DECIMALS: dict[str, int] = {}


def make(results: Results, settings: dict) -> pd.DataFrame:
    tidy, table = results.tidy(), points(results)
    table.insert(2, "groups", [total_heads(tidy, model) for model in table["model"]])
    return table.assign(model=table["model"].map(results.models))
