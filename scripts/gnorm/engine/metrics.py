"""How good a model is, in numbers: one function a metric; imports no torch.

Those of `Predictions` are taken at every step. Those of generated text are taken where speed is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

TASKS = ("classification", "language_model")
BINS = 10  # of the calibration error
WINDOW = 50  # words in which one may be repeated
DIGITS = 6  # significant ones that are kept: the rest differs with the batch size


@dataclass(frozen=True)
class Predictions:
    """Of rows, or of language models of the tokens that follow one: all arrays have an entry for each."""

    label: np.ndarray
    predicted: np.ndarray
    loss: np.ndarray  # -log of the label's probability
    confidence: np.ndarray  # the prediction's probability

    @staticmethod
    def join(parts: Iterable[Predictions]) -> Predictions:
        return Predictions(*map(np.concatenate, zip(*(part._arrays for part in parts), strict=True)))

    def split(self, counts: Sequence[int]) -> list[Predictions]:
        """Consecutive parts of so many entries each."""
        ends = np.cumsum(counts)[:-1]
        return [Predictions(*part) for part in zip(*(np.split(of, ends) for of in self._arrays), strict=True)]

    @property
    def _arrays(self) -> list[np.ndarray]:
        return [getattr(self, f.name) for f in fields(self)]

    @property
    def correct(self) -> np.ndarray:
        return self.label == self.predicted


def accuracy(found: Predictions) -> float:
    return float(found.correct.mean())


def loss(found: Predictions) -> float:
    """The mean in nats."""
    return float(found.loss.mean(dtype=np.float64))


def perplexity(found: Predictions) -> float:
    """exp of the mean loss of a token, all tokens alike; infinite where no float64 holds it."""
    mean = loss(found)
    return math.exp(mean) if mean < 709 else math.inf


def macro_f1(found: Predictions) -> float:
    """The mean over classes of 2 TP / (2 TP + FP + FN), of classes that are a label or are predicted."""
    scores = []
    for name in np.union1d(found.label, found.predicted):
        is_label, is_predicted = found.label == name, found.predicted == name
        scores.append(2 * (is_label & is_predicted).sum() / (is_label.sum() + is_predicted.sum()))
    return float(np.mean(scores))


def calibration_error(found: Predictions) -> float:
    """|accuracy - mean confidence| of ten bins of equal width, weighted by how many predictions each has."""
    confidence = found.confidence.astype(np.float64)
    bins = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)  # (0, 0.1], (0.1, 0.2], ...
    gaps = np.zeros(BINS)
    np.add.at(gaps, bins, found.correct - confidence)
    return float(np.abs(gaps).sum() / len(confidence))


def lexical_diversity(words: Sequence[str]) -> float:
    """Different words among all (Sentinel-AI); NaN without words."""
    return len(set(words)) / len(words) if words else math.nan


def repetition(words: Sequence[str]) -> float:
    """Of all words but the last, the share that comes again within the window (Sentinel-AI); NaN below two words."""
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


def title(name: str, task: str) -> str:
    return "next-token accuracy" if (name, task) == ("accuracy", "language_model") else METRICS[name].title


def at_steps(names: Iterable[str]) -> list[str]:
    """Those that every step records beside its accuracy, each once."""
    return [name for name in dict.fromkeys(names) if METRICS[name].of_predictions and name != "accuracy"]


def evaluate(names: Iterable[str], found: Predictions) -> dict[str, float]:
    return {name: rounded(METRICS[name].of_predictions(found)) for name in names}


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
