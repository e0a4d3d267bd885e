"""The accuracy that a task allows without a model: by its majority class, and by a bag of words."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # of logistic regression; cross-validation chooses


def majority(train: Sequence[dict], evaluated: Sequence[dict]) -> float:
    """Measure the accuracy of the most common class of the training rows; ties go to the lowest."""
    counts = Counter(row["label"] for row in train)
    common = min(counts, key=lambda label: (-counts[label], label))
    return sum(row["label"] == common for row in evaluated) / len(evaluated)


def bag_of_words(train: Sequence[dict], evaluated: Sequence[dict], seed: int) -> tuple[float, float]:
    """Measure the accuracy of logistic regression on TF-IDF of words and word pairs, and choose its strength.

    The strength is chosen by cross-validation on the training rows; evaluation rows are seen once.
    """
    labels = np.array([row["label"] for row in train])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        chosen = _strength(_texts(train), labels, seed)
        counted = _words()
        model = LogisticRegression(C=chosen, max_iter=1000).fit(counted.fit_transform(_texts(train)), labels)
    return float(model.score(counted.transform(_texts(evaluated)), [row["label"] for row in evaluated])), chosen


def _strength(texts: np.ndarray, labels: np.ndarray, seed: int) -> float:
    """Choose the strength with the best accuracy over the folds; ties go to the lowest; 1 if a class has one row."""
    folds = min(5, *Counter(labels.tolist()).values())
    if folds < 2:
        return 1.0
    accuracies = np.zeros(len(STRENGTHS))
    for fitted, held_out in StratifiedKFold(folds, shuffle=True, random_state=seed).split(texts, labels):
        counted = _words()
        inside, outside = counted.fit_transform(texts[fitted]), counted.transform(texts[held_out])
        model = LogisticRegression(max_iter=1000, warm_start=True)  # each fit starts from the last: a third of the time
        for i, strength in enumerate(STRENGTHS):
            model.set_params(C=strength).fit(inside, labels[fitted])
            accuracies[i] += model.score(outside, labels[held_out])
    return STRENGTHS[int(accuracies.argmax())]


def _words() -> TfidfVectorizer:
    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"[^\W_]+|[^\w\s]+")


def _texts(rows: Sequence[dict]) -> np.ndarray:
    return np.array([" ".join(filter(None, (row["text"], row["pair"]))) for row in rows], dtype=object)
