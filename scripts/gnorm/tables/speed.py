"""Tokens a second as heads go, in the order of run 0, and what language models then write.

Language models: tokens that greedy decoding produced, with cached keys and values; classifiers: tokens read. The
median of five rounds, each after a warm-up, with the lowest and the highest of them; other work on the machine
counts. `speed-up` is against the unpruned model. Lexical diversity is different words among all, repetition the share
of words that come again within 50 (Sentinel-AI), each the mean over the texts. Read them with `words a text` and
`texts judged`, those of two words or more: who writes nothing repeats nothing. The first text is in the model's
`speed.csv`.
"""

import pandas as pd

from gnorm.statistics.results import Results

NEEDS = ("speeds",)
DECIMALS = {"tokens a second": 0, "lowest": 0, "highest": 0, "speed-up": 2, "words a text": 1}
# Columns of speed.csv as they are shown; classifiers write no text.
NAMES = {
    "model": "model",
    "strategy": "strategy",
    "heads_pruned": "heads pruned",
    "parameters": "parameters",
    "tokens_per_second": "tokens a second",
    "lowest_tokens_per_second": "lowest",
    "highest_tokens_per_second": "highest",
    "speed-up": "speed-up",
    "words": "words a text",
    "texts_judged": "texts judged",
    "lexical_diversity": "lexical diversity",
    "repetition": "repetition",
}


def make(results: Results, settings: dict) -> pd.DataFrame:
    parts = []
    for model, shown in results.models.items():
        speeds = results.speeds(model)
        if speeds is None:
            continue  # not asked for
        whole = speeds.groupby("strategy")["tokens_per_second"].transform("first")
        parts.append(speeds.assign(model=shown, **{"speed-up": speeds["tokens_per_second"] / whole}))
    table = pd.concat(parts, ignore_index=True)
    if "texts" in table:
        counted = table["texts_judged"].notna()
        shown = table[counted].apply(lambda row: f"{row['texts_judged']:.0f} of {row['texts']:.0f}", axis=1)
        table["texts_judged"] = shown.reindex(table.index)
    return table[[name for name in NAMES if name in table]].rename(columns=NAMES)
