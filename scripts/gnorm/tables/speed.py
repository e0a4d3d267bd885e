"""Tokens a second as heads go, in the order of run 0, and what language models then write.

Language models: tokens that greedy decoding produced, with cached keys and values; classifiers: tokens read.
`speed-up` is against the unpruned model. Medians of five rounds, each after a warm-up; other work on the machine
counts. Lexical diversity is different words among all, repetition the share of words that come again within 50
(Sentinel-AI), each the mean over the texts; the first text is in the model's `speed.csv`.
"""

import pandas as pd

from gnorm.results import Results

NEEDS = ("speeds",)
DECIMALS = {"tokens a second": 0, "speed-up": 2}
NAMES = {
    "heads_pruned": "heads pruned",
    "tokens_per_second": "tokens a second",
    "lexical_diversity": "lexical diversity",
}
COLUMNS = ["model", "strategy", "heads_pruned", "parameters", "tokens", "tokens_per_second", "speed-up"]


def make(results: Results, settings: dict) -> pd.DataFrame:
    parts = []
    for model, shown in results.models.items():
        found = results.speeds(model)
        if found is None:
            continue  # not asked for
        whole = found.groupby("strategy")["tokens_per_second"].transform("first")
        parts.append(found.assign(model=shown, **{"speed-up": found["tokens_per_second"] / whole}))
    table = pd.concat(parts, ignore_index=True)
    written = [name for name in ("lexical_diversity", "repetition") if name in table]
    return table[[*COLUMNS, *written]].rename(columns=NAMES)
