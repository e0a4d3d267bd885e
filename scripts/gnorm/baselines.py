"""What accuracy a task gives away without the model: its majority class, and a bag of words."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # of logistic regression; cross-validation chooses


def majority(train: Sequence[dict], evaluated: Sequence[dict]) -> float:
    """Accuracy of the most common class of the training rows; ties go to the lowest."""
    counts = Counter(row["label"] for row in train)
    common = min(counts, key=lambda label: (-counts[label], label))
    return sum(row["label"] == common for row in evaluated) / len(evaluated)


def bag_of_words(train: Sequence[dict], evaluated: Sequence[dict], seed: int) -> tuple[float, float]:
    """Accuracy of logistic regression on TF-IDF of words and pairs of words, and the strength chosen for it.

    The strength is chosen by cross-validation on the training rows; evaluation rows are seen once.
    """
    texts, labels = [_text(row) for row in train], [row["label"] for row in train]
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"[^\W_]+|[^\w\s]+")
    model = make_pipeline(words, LogisticRegression(max_iter=1000))
    folds = min(5, *Counter(labels).values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if folds >= 2:
            parts = StratifiedKFold(folds, shuffle=True, random_state=seed)
            model = GridSearchCV(model, {"logisticregression__C": STRENGTHS}, cv=parts)
        model.fit(texts, labels)
    chosen = model.best_params_["logisticregression__C"] if folds >= 2 else 1.0
    return float(model.score([_text(row) for row in evaluated], [row["label"] for row in evaluated])), chosen


def _text(row: dict) -> str:
    return " ".join(filter(None, (row["text"], row["pair"])))
