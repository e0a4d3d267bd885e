"""Metrics of a model's quality: one function per metric; imports no torch.

Metrics of `Predictions` are computed at every step, metrics of generated text where speed is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

BINS = 10  # of the calibration error
WINDOW = 50  # words in which one may be repeated
DIGITS = 6  # significant digits that are kept: the others differ with the batch size


@dataclass(frozen=True)
class Predictions:
    """One entry per row, or for language models one per token that follows another, in each array."""

    label: np.ndarray
    predicted: np.ndarray
    loss: np.ndarray  # -log of the label's probability
    confidence: np.ndarray  # the prediction's probability

    @staticmethod
    def join(parts: Iterable[Predictions]) -> Predictions:
        return Predictions(*map(np.concatenate, zip(*(part._arrays for part in parts), strict=True)))

    def split(self, counts: Sequence[int]) -> list[Predictions]:
        """Split into consecutive parts of `counts` entries."""
        ends = np.cumsum(counts)[:-1]
        return [Predictions(*part) for part in zip(*(np.split(of, ends) for of in self._arrays), strict=True)]

    @property
    def _arrays(self) -> list[np.ndarray]:
        return [getattr(self, f.name) for f in fields(self)]

    @property
    def correct(self) -> np.ndarray:
        return self.label == self.predicted


@dataclass(frozen=True, eq=False)
class ByRow:
    """What a model answered on each row of a list, in the list's order; of language models sums over a row's tokens."""

    row: np.ndarray  # its number in the dataset
    answers: np.ndarray  # 1, or how many of its tokens follow another
    right: np.ndarray  # right answers
    loss: np.ndarray  # summed over the answers
    label: np.ndarray | None = None  # of classifiers, as are the others
    predicted: np.ndarray | None = None
    confidence: np.ndarray | None = None


def smallest(counts: np.ndarray) -> np.ndarray:
    """Cast integers to the smallest type that holds them all."""
    ends = counts.min(initial=0), counts.max(initial=0)
    return counts.astype(np.result_type(*map(np.min_scalar_type, ends)), copy=False)


def accuracy(predictions: Predictions) -> float:
    return float(predictions.correct.mean())


def loss(predictions: Predictions) -> float:
    """The mean in nats."""
    return float(predictions.loss.mean(dtype=np.float64))


def perplexity(predictions: Predictions) -> float:
    """exp of the mean loss of a token, all tokens alike; infinite where no float64 holds it."""
    return perplexity_of(loss(predictions))


def perplexity_of(mean: float) -> float:
    return math.exp(mean) if mean < 709 else math.inf


def macro_f1(predictions: Predictions) -> float:
    """The mean of 2 TP / (2 TP + FP + FN) over the classes that are a label or are predicted."""
    scores = []
    for name in np.union1d(predictions.label, predictions.predicted):
        is_label, is_predicted = predictions.label == name, predictions.predicted == name
        scores.append(2 * (is_label & is_predicted).sum() / (is_label.sum() + is_predicted.sum()))
    return float(np.mean(scores))


def calibration_error(predictions: Predictions) -> float:
    """|accuracy - mean confidence| of ten bins of equal width, weighted by how many predictions each has."""
    confidence = predictions.confidence.astype(np.float64)
    bins = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)  # (0, 0.1], (0.1, 0.2], ...
    gaps = np.zeros(BINS)
    np.add.at(gaps, bins, predictions.correct - confidence)
    return float(np.abs(gaps).sum() / len(confidence))


def lexical_diversity(words: Sequence[str]) -> float:
    """The number of different words divided by the number of words (Sentinel-AI); NaN without words."""
    return len(set(words)) / len(words) if words else math.nan


def repetition(words: Sequence[str]) -> float:
    """The share of words, without the last one, that recur within the window (Sentinel-AI); NaN below two words."""
    if len(words) < 2:
        return math.nan
    window = min(WINDOW, len(words))
    again = sum(words[i] in words[i + 1 : i + window] for i in range(len(words) - 1))
    return again / (len(words) - 1)


@dataclass(frozen=True)
class Metric:
    title: str
    better: str  # higher or lower
    of_predictions: Callable[[Predictions], float] | None = None
    of_words: Callable[[Sequence[str]], float] | None = None  # of generated text
    log: bool = False  # drawn on a logarithmic axis


METRICS = {
    "accuracy": Metric("accuracy", "higher", accuracy),
    "macro_f1": Metric("macro-F1", "higher", macro_f1),
    "loss": Metric("loss", "lower", loss),
    "calibration_error": Metric("calibration error", "lower", calibration_error),
    "perplexity": Metric("perplexity", "lower", perplexity, log=True),
    "tokens_per_second": Metric("tokens per second", "higher"),
    "lexical_diversity": Metric("lexical diversity", "higher", of_words=lexical_diversity),
    "repetition": Metric("repetition", "lower", of_words=repetition),
}


AT_LEVELS = ("tokens_per_second", "lexical_diversity", "repetition")  # measured where speed is, not at every step


def title(name: str, task: str) -> str:
    return "next-token accuracy" if (name, task) == ("accuracy", "language_model") else METRICS[name].title


def at_steps(names: Iterable[str]) -> list[str]:
    """The metrics that every step records beside its accuracy, each once."""
    return [name for name in dict.fromkeys(names) if METRICS[name].of_predictions and name != "accuracy"]


def evaluate(names: Iterable[str], predictions: Predictions) -> dict[str, float]:
    return {name: rounded(METRICS[name].of_predictions(predictions)) for name in names}


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
