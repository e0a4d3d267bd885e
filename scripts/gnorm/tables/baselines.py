"""Accuracy of the unpruned model beside the majority class and a bag of words (TF-IDF, logistic regression).

All on the same evaluation rows; the baselines learn from the model's own training rows. Models that are not
trained here have no such rows and are left out; so are language models, which have no classes.
"""

import pandas as pd

from gnorm.statistics.results import Results, curves

NEEDS = ("tidy", "baselines")
SHOWN = ("strategy",)
DECIMALS = {"model (%)": 1, "majority class (%)": 1, "bag of words (%)": 1}


def make(results: Results, settings: dict) -> pd.DataFrame:
    tidy, rows = results.tidy(), []
    for model, title in results.models.items():
        baselines = results.baselines(model)
        if baselines is None:
            continue
        reached = curves(tidy, model, settings["strategy"])[0]["accuracy"].iloc[0]
        rows.append(
            {
                "model": title,
                "trained on": baselines["trained"],
                "evaluated on": baselines["evaluated"],
                "majority class (%)": 100 * baselines["majority"],
                "bag of words (%)": 100 * baselines["bag_of_words"],
                "model (%)": 100 * reached,
                "beats both": "yes" if reached > max(baselines["majority"], baselines["bag_of_words"]) else "no",
            }
        )
    columns = "model,trained on,evaluated on,majority class (%),bag of words (%),model (%),beats both".split(",")
    return pd.DataFrame(rows, columns=columns)
