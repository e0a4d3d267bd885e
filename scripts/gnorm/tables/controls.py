"""Accuracy, other metrics and size of each model with everything of a kind cut out: all heads, all neurons, or both.

What is left without either is embeddings, biases, norms and the classifier. Accuracy and perplexity of language models
are of next tokens. `share` is of the untouched model's parameters.
"""

import pandas as pd

from gnorm.engine.metrics import METRICS, at_steps
from gnorm.statistics.results import Results

NEEDS = ("controls",)
SHOWN = ("metrics", "tasks")
DECIMALS = {"accuracy (%)": 1, "share (%)": 1}


def make(results: Results, settings: dict) -> pd.DataFrame:
    rows = []
    wanted = at_steps(name for task in settings["tasks"].values() for name in settings["metrics"][task])
    for model, title in results.models.items():
        by_control = results.controls(model)
        whole = by_control["nothing"]["parameters"]
        for removed, measured in by_control.items():
            rows.append(
                {
                    "model": title,
                    "removed": removed,
                    "accuracy (%)": 100 * measured["correct"] / measured["evaluated"],
                    **{METRICS[name].title: measured["metrics"].get(name) for name in wanted},
                    "parameters": measured["parameters"],
                    "share (%)": 100 * measured["parameters"] / whole,
                }
            )
    return pd.DataFrame(rows)
