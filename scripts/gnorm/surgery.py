"""Removing heads: structurally, or by a gate that gives the same outputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import transformers
from torch import nn

from gnorm.heads import HeadMap

_verbosity = transformers.logging.get_verbosity()
from textpruner import GeneralConfig, TransformerPruner  # noqa: E402

transformers.logging.set_verbosity(_verbosity)  # importing TextPruner turns it up to INFO

Slot = tuple[int, int]


def prune(model: nn.Module, heads: HeadMap, slots: Iterable[Slot]) -> None:
    """Cut the slots' rows and columns out of the projections, with TextPruner.

    A block may lose all its heads. The new projections are frozen and keep the dtype.
    """
    mask = torch.ones(heads.shape)
    for row, head in slots:
        mask[row, head] = 0
    parameter = next(model.parameters())
    default = torch.get_default_dtype()
    torch.set_default_dtype(parameter.dtype)  # the projections are rebuilt in the default dtype
    try:
        # Any existing folder will do: TextPruner makes its output folder even when it saves nothing.
        general = GeneralConfig(use_device=str(parameter.device), output_dir=".")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Initializing zero-element tensors")  # a block without heads
            TransformerPruner(model, general_config=general).prune(head_mask=mask, save_model=False)
    finally:
        torch.set_default_dtype(default)
    model.requires_grad_(False)


@contextmanager
def gated(model: nn.Module, heads: HeadMap, slots: Iterable[Slot]) -> Iterator[None]:
    """Multiply the slots' head outputs by zero while the block runs."""
    handles = []
    kept = heads.kept(model)
    for row, block in enumerate(heads.blocks):
        still = kept[row].nonzero().flatten().tolist()
        off = [still.index(head) for r, head in slots if r == row]
        if not off:
            continue
        gate = torch.ones(len(still)).index_fill(0, torch.tensor(off), 0).repeat_interleave(heads.width)

        def apply(_module, args, gate=gate):
            return (args[0] * gate.to(args[0]), *args[1:])

        handles.append(model.get_submodule(block.output).register_forward_pre_hook(apply))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
