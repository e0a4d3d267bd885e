"""What a model answered on each evaluation row, step after step, packed into a file that numpy alone reads.

Accuracies, areas and the metrics of every step can be computed again from it, and so can what counts alone do not give:
how two strategies differ row by row.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Self

import numpy as np

from gnorm.engine import metrics
from gnorm.engine.metrics import ByRow, Predictions, smallest
from gnorm.errors import UserError
from gnorm.files import ROOM, atomic, within_memory

SHARED = ("heads", "row", "answers", "label")  # by all points
TYPES = {"row": np.int64, "curve": np.int64, "heads_pruned": np.int64, "heads": np.int64}
TYPES |= {"loss": np.float32, "confidence": np.float32, "criterion": np.str_}  # others: the smallest that will do


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The rows of one list at points of curves: steps of runs, or levels of random trials or of a criterion's runs.

    Classifiers have `label`, `predicted` and `confidence`, from which follows what was right; language models have
    `right_tokens`. The arrays of points and rows are points x rows.
    """

    heads: np.ndarray  # of the unpruned model, tied ones counted in every layer; of neurons their groups
    row: np.ndarray  # numbers in the dataset
    answers: np.ndarray  # 1 for a row with a class; of language models how many tokens of the row follow another
    curve: np.ndarray  # the run or trial that the point belongs to
    heads_pruned: np.ndarray
    loss: np.ndarray  # -log of the label's probability, summed over the row's answers
    label: np.ndarray | None = None
    predicted: np.ndarray | None = None
    confidence: np.ndarray | None = None  # the probability of what is predicted
    right_tokens: np.ndarray | None = None
    criterion: np.ndarray | None = None  # whose order it is, where criteria are compared

    @classmethod
    def of(cls, by_row: ByRow, *, curve: int, heads_pruned: int, heads: int) -> Self:
        """Make the outcomes of one point."""
        point = {"heads": heads, "row": by_row.row, "answers": by_row.answers}
        point |= {"curve": [curve], "heads_pruned": [heads_pruned], "loss": by_row.loss[None]}
        if by_row.label is None:
            point["right_tokens"] = by_row.right[None]
        else:
            point |= {"label": by_row.label, "predicted": by_row.predicted[None]}
            point["confidence"] = by_row.confidence[None]
        return cls.from_arrays(point)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Make them from what `arrays` gave; every array gets the one type that its values ask for."""
        return cls(**{name: _typed(name, np.asarray(values)) for name, values in arrays.items()})

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in values.items() if array is not None}

    @property
    def right(self) -> np.ndarray:
        """Right answers, points x rows."""
        if self.right_tokens is not None:
            return self.right_tokens
        return (self.predicted == self.label).astype(np.uint8)

    @property
    def accuracy(self) -> np.ndarray:
        """The accuracy at every point."""
        return self.right.sum(1, dtype=np.int64) / self.answers.sum(dtype=np.int64)

    @property
    def fraction_pruned(self) -> np.ndarray:
        return self.heads_pruned / self.heads

    def metrics(self, names: Iterable[str]) -> list[dict[str, float]]:
        """Compute metrics at every point; of language models loss and perplexity."""
        names = list(names)
        if self.predicted is not None:
            return [metrics.evaluate(names, self._predictions(point)) for point in range(len(self.curve))]
        means = self.loss.sum(1, dtype=np.float64) / self.answers.sum(dtype=np.int64)
        of_mean = {"loss": float, "perplexity": metrics.perplexity_of}
        return [{name: metrics.rounded(of_mean[name](mean)) for name in names} for mean in means]

    def _predictions(self, point: int) -> Predictions:
        counted = self.answers > 0
        values = self.label, self.predicted[point], self.loss[point], self.confidence[point]
        return Predictions(*(own[counted] for own in values))

    def of_curve(self, curve: int) -> Self:
        """The points of one run or trial."""
        return self._chosen(self.curve == curve)

    def of_criterion(self, name: str) -> Self:
        """The points of one criterion's order."""
        return self._chosen(self.criterion == name)

    @property
    def points(self) -> list[Self]:
        """Each point alone."""
        return [self._chosen(slice(point, point + 1)) for point in range(len(self.curve))]

    def _chosen(self, wanted: np.ndarray | slice) -> Self:
        arrays = {name: own if name in SHARED else own[wanted] for name, own in self.arrays.items()}
        return self.from_arrays(arrays)

    def ordered_by(self, criterion: str) -> Self:
        """The same points as those of a criterion's order."""
        return replace(self, criterion=np.full(len(self.curve), criterion))


def _typed(name: str, values: np.ndarray) -> np.ndarray:
    return values.astype(TYPES[name], copy=False) if name in TYPES else smallest(values)


def join(parts: Sequence[Outcomes]) -> Outcomes:
    """Join the points of several parts, which must be about the same rows."""
    first, arrays = parts[0], [part.arrays for part in parts]
    for part in parts[1:]:
        if not all(np.array_equal(part.arrays.get(name), first.arrays.get(name)) for name in SHARED):
            raise ValueError("outcomes of different rows, or of different models, cannot be joined")
    joined = {
        name: own if name in SHARED else np.concatenate([part[name] for part in arrays])
        for name, own in first.arrays.items()
    }
    return Outcomes.from_arrays(joined)


def write(path: str | Path, outcomes: Outcomes) -> None:
    """Write them to the same bytes whenever they are the same."""
    with atomic(path) as temporary:
        np.savez_compressed(temporary, allow_pickle=False, **outcomes.arrays)


def read(path: str | Path) -> Outcomes:
    try:
        with within_memory(ROOM), np.load(path, allow_pickle=False) as stored:
            return Outcomes.from_arrays(dict(stored))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, EOFError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{path} is no readable file of outcomes ({error})") from error
