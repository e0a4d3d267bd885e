"""Metrics against loops, and against scikit-learn where it has them."""

import math

import numpy as np
import pytest
from sklearn.metrics import f1_score

from gnorm.engine import metrics
from gnorm.engine.metrics import METRICS, Predictions


def drawn(seed, count=200, classes=4):
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(classes) / 2, count)
    label, predicted = rng.integers(classes, size=count), chances.argmax(1)
    return Predictions(label, predicted, -np.log(chances[np.arange(count), label]), chances.max(1)), chances


@pytest.mark.parametrize("seed", range(5))
def test_they_equal_the_loops(seed):
    found, chances = drawn(seed)
    pairs = list(zip(found.label.tolist(), found.predicted.tolist(), strict=True))
    assert metrics.accuracy(found) == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    assert metrics.macro_f1(found) == pytest.approx(f1_score(found.label, found.predicted, average="macro"))
    mean = sum(-math.log(row[label]) for row, label in zip(chances, found.label, strict=True)) / len(pairs)
    assert metrics.loss(found) == pytest.approx(mean)
    assert metrics.perplexity(found) == pytest.approx(math.exp(mean))
    error = 0.0
    for low in range(10):
        inside = [i for i, c in enumerate(found.confidence) if low / 10 < c <= (low + 1) / 10]
        if inside:
            right = sum(found.label[i] == found.predicted[i] for i in inside) / len(inside)
            error += len(inside) / len(pairs) * abs(right - sum(found.confidence[i] for i in inside) / len(inside))
    assert metrics.calibration_error(found) == pytest.approx(error)


def test_by_hand():
    label, predicted = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1])
    found = Predictions(label, predicted, np.array([0.0, 2.0, 0.0, 2.0]), np.array([1.0, 0.5, 1.0, 0.5]))
    assert metrics.macro_f1(found) == pytest.approx((2 / 3 + 2 / 4 + 0) / 3)
    assert metrics.calibration_error(found) == pytest.approx(0.5 * 0 + 0.5 * 0.5)
    assert metrics.perplexity(found) == pytest.approx(math.e)
    assert metrics.perplexity(Predictions(label, predicted, np.full(4, 800.0), np.ones(4))) == math.inf


def sentinel(text):
    """As the document of Sentinel-AI has it."""
    words = text.split()
    diversity = len(set(words)) / len(words)
    window_size = min(50, len(words))
    repeats = 0
    for i in range(len(words) - 1):
        end_idx = min(i + window_size, len(words))
        if words[i] in words[i + 1 : end_idx]:
            repeats += 1
    return diversity, repeats / (len(words) - 1)


def test_text_is_judged_as_sentinel_does():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefgh"), size)) for size in (2, 3, 10, 49, 50, 51, 52, 200)]
    texts += ["a a a a", "a b c d", " ".join(map(str, range(60))) + " 0 1"]  # within the window, and beyond it
    for text in texts:
        found = metrics.lexical_diversity(text.split()), metrics.repetition(text.split())
        assert found == pytest.approx(sentinel(text))
    assert metrics.repetition("a a a a".split()) == 1 and metrics.repetition("a b".split()) == 0
    assert math.isnan(metrics.lexical_diversity([])) and math.isnan(metrics.repetition(["a"]))


def test_parts_join_to_the_whole():
    found, _ = drawn(1)
    parts = found.split([50, 0, 149, 1])
    assert [len(part.label) for part in parts] == [50, 0, 149, 1]
    joined = Predictions.join(parts)
    assert all((getattr(joined, name) == getattr(found, name)).all() for name in ("label", "predicted", "loss"))


def test_values_keep_six_digits():
    found, _ = drawn(2)
    values = metrics.evaluate(["loss", "macro_f1"], found)
    assert values == {name: float(f"{METRICS[name].of_predictions(found):.6g}") for name in ("loss", "macro_f1")}
    assert metrics.at_steps(["tokens_per_second", "loss", "accuracy", "perplexity", "loss"]) == ["loss", "perplexity"]
