"""The workbench of a job: a model, its tokenizer and rows, and batches of as many tokens as the machine has room for.

Evaluations and maps of neurons are made where they are used: entropy jobs must not rerun when a metric changes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gnorm.data.rows import read
from gnorm.engine import batches
from gnorm.engine.batches import Batch
from gnorm.engine.memory import Probe, token_budget
from gnorm.files import digest
from gnorm.models import checkpoints
from gnorm.models.heads import HeadMap, head_map

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Workbench:
    """An unpruned model, which jobs copy before they prune, and everything else they need."""

    def __init__(
        self,
        *,
        model: nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        lists: Mapping[str, list[dict]] | None = None,
        tokens: int | str = "auto",
        memory_mb: int | None = None,
        reuse_mb: int = 0,
        metrics: Iterable[str] = (),
    ):
        """Take rows by the name of their list as `lists`; the other settings are those of a suite."""
        self.model, self.tokenizer = model, tokenizer
        self.metrics, self.reuse_mb, self.memory_mb = list(metrics), reuse_mb, memory_mb
        self.checkpoint: str | Path | None = None
        self._lists, self._folder = dict(lists or {}), None
        self._setting, self._probe, self._left_free = tokens, None, reuse_mb

    @classmethod
    def load(
        cls,
        *,
        checkpoint: str | Path,
        dataset_folder: str | Path,
        threads: int | None = None,
        budget: str | Path | None = None,
        attention: str = "sdpa",
        on: str | None = None,
        keeps_outputs: bool = True,
        **settings: Any,
    ) -> Workbench:
        """Make the workbench of a job; `dataset_folder`, `threads`, `budget` and `settings` are its parameter `bench`.

        `budget` is the file for the token budget that a probe finds on a GPU. `keeps_outputs` says whether the job
        keeps outputs of layers, which take `reuse_mb` of a CPU's memory.
        """
        if threads:
            torch.set_num_threads(threads)
        model, tokenizer = checkpoints.load(checkpoint, attention, on)
        bench = cls(model=model, tokenizer=tokenizer, **settings)
        bench.checkpoint, bench._folder = checkpoint, dataset_folder
        bench._probe = Probe(checkpoint, dataset_folder, budget, bench.reuse_mb) if budget else None
        bench._left_free = bench.reuse_mb if keeps_outputs else 0
        return bench

    @cached_property
    def heads(self) -> HeadMap:
        return head_map(self.model)

    @property
    def device(self) -> torch.device:
        return self.model.device

    @cached_property
    def tokens(self) -> int:
        """The number of tokens a batch may have."""
        return token_budget(self._setting, self.model, self.heads, self.memory_mb, self._left_free, self._probe)

    @cached_property
    def digest(self) -> str:
        """The checkpoint's digest, which files made from it record."""
        return digest(self.checkpoint)

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

    def copy(self) -> nn.Module:
        """Copy the model, to prune the copy."""
        return copy.deepcopy(self.model)
