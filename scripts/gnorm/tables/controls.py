"""Accuracy and size of each model with everything of a kind cut out: all heads, all neurons, or both.

What is left without either is embeddings, biases, norms and the classifier. `share` is of the untouched model's
parameters.
"""

import pandas as pd

from gnorm.results import Results

NEEDS = ("controls",)
DECIMALS = {"accuracy (%)": 1, "share (%)": 1}


def make(results: Results, settings: dict) -> pd.DataFrame:
    rows = []
    for model, title in results.models.items():
        found = results.controls(model)
        whole = found["nothing"]["parameters"]
        for removed, measured in found.items():
            rows.append(
                {
                    "model": title,
                    "removed": removed,
                    "accuracy (%)": 100 * measured["correct"] / measured["evaluated"],
                    "parameters": measured["parameters"],
                    "share (%)": 100 * measured["parameters"] / whole,
                }
            )
    return pd.DataFrame(rows)
