"""A checkpoint that a job has loaded: model, tokenizer, heads. Jobs without rows and batches need no more."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn

from gnorm.files import digest
from gnorm.models import checkpoints
from gnorm.models.heads import HeadMap, head_map

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Loaded:
    """An unpruned model, which jobs copy before they prune, and its tokenizer."""

    def __init__(self, *, model: nn.Module, tokenizer: PreTrainedTokenizerBase, surgery: str = "textpruner"):
        """Take heads out by TextPruner where it knows the family, or, with `surgery="own"`, never by it."""
        self.model, self.tokenizer, self.surgery = model, tokenizer, surgery
        self.checkpoint: str | Path | None = None

    @classmethod
    def load(
        cls,
        *,
        checkpoint: str | Path,
        threads: int | None = None,
        attention: str = "sdpa",
        on: str | None = None,
        **settings: Any,
    ) -> Self:
        """Load a checkpoint on the device `on`, by default the one that torch can use."""
        if threads:
            torch.set_num_threads(threads)
        model, tokenizer = checkpoints.load(checkpoint, attention, on)
        loaded = cls(model=model, tokenizer=tokenizer, **settings)
        loaded.checkpoint = checkpoint
        return loaded

    @cached_property
    def heads(self) -> HeadMap:
        heads = head_map(self.model)
        return replace(heads, textpruner=heads.textpruner and self.surgery == "textpruner")

    @property
    def device(self) -> torch.device:
        return self.model.device

    @cached_property
    def digest(self) -> str:
        """The checkpoint's digest, which files made from it record."""
        return digest(self.checkpoint)

    def copy(self) -> nn.Module:
        """Copy the model, to prune the copy."""
        return copy.deepcopy(self.model)
