"""The workbench of a job: a model, its tokenizer and rows, and batches of as many tokens as the machine has room for.

Evaluations and maps of neurons are made where they are used: entropy jobs must not rerun when a metric changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from gnorm.data.rows import read
from gnorm.engine import batches
from gnorm.engine.batches import Batch
from gnorm.engine.memory import Probe, token_budget
from gnorm.models.loaded import Loaded


class Workbench(Loaded):
    """A loaded model, and everything else that jobs which run it on rows need."""

    def __init__(
        self,
        *,
        lists: Mapping[str, list[dict]] | None = None,
        tokens: int | str = "auto",
        memory_mb: int | None = None,
        reuse_mb: int = 0,
        metrics: Iterable[str] = (),
        resamples: bool = True,
        **loaded: Any,
    ):
        """Take rows by the name of their list as `lists`; the other settings are those of a suite, or of `Loaded`.

        `resamples` says whether a run r > 0 resamples the rows to score; one with a model of its own does not.
        """
        super().__init__(**loaded)
        self.metrics, self.reuse_mb, self.memory_mb = list(metrics), reuse_mb, memory_mb
        self.resamples = resamples
        self._lists, self._folder = dict(lists or {}), None
        self._setting, self._probe, self._left_free = tokens, None, reuse_mb

    @classmethod
    def load(
        cls,
        *,
        checkpoint: str | Path,
        dataset_folder: str | Path,
        budget: str | Path | None = None,
        keeps_outputs: bool = True,
        **settings: Any,
    ) -> Self:
        """Make the workbench of a job; `dataset_folder`, `threads`, `budget` and `settings` are its parameter `bench`.

        `budget` is the file for the token budget that a probe finds on a GPU. `keeps_outputs` says whether the job
        keeps outputs of layers, which take `reuse_mb` of a CPU's memory.
        """
        bench = super().load(checkpoint=checkpoint, **settings)
        bench._folder = dataset_folder
        bench._probe = Probe(checkpoint, dataset_folder, budget, bench.reuse_mb) if budget else None
        bench._left_free = bench.reuse_mb if keeps_outputs else 0
        return bench

    @cached_property
    def tokens(self) -> int:
        """The number of tokens a batch may have."""
        return token_budget(self._setting, self.model, self.heads, self.memory_mb, self._left_free, self._probe)

    @property
    def used(self) -> dict[str, Any]:
        """Settings that results depend on beside a job's files and parameters, for `gnorm.resume`."""
        return {"device": self.device.type, "tokens": self.tokens, "metrics": self.metrics}

    def rows(self, which: str) -> list[dict]:
        """Read the rows of one list of the dataset."""
        if which not in self._lists:
            self._lists[which] = read(self._folder, which)
        return self._lists[which]

    def batches(self, which: str, weights: Sequence[int] | None = None) -> list[Batch]:
        """Make batches of one list's rows, each as often as its weight says, on the model's device where they fit."""
        packed = batches.make(self.tokenizer, self.rows(which), self.tokens, weights, f"{which} rows")
        return batches.resident(packed, self.device)
