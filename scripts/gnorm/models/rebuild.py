"""Pruned models that transformers loads: while a model is built, cut what its configuration says is gone.

Its modules then fit the weights that are left. This happens before any weight is read, so a pruned model takes no more
memory than its own weights, and whatever loads models by `from_pretrained` loads pruned ones: an Auto class, a class by
its name, a body without a head.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from gnorm import families
from gnorm.errors import UserError
from gnorm.models.heads import HeadMap, head_map
from gnorm.models.neurons import neuron_map, pruned_neurons
from gnorm.models.slots import SlotMap
from gnorm.models.surgery import columns_of, cut
from gnorm.models.versions import VERSION, ignore_when_loading, not_pruning, other_writer

# An empty tensor of this name is in every compact folder: transformers 5 lists it beside the weights that do not fit.
NOTE = "import gnorm.hf before loading this pruned model"


def is_pruned(config: Any) -> bool:
    """Whether a configuration lists heads or neurons that are gone, of a model whose heads are known here."""
    gone = any(any((getattr(config, name, None) or {}).values()) for name in ("pruned_heads", "pruned_neurons"))
    return gone and bool(getattr(config, "head_map", None) or families.find(config.model_type))


def rebuild(model: PreTrainedModel) -> None:
    """Cut out of a model's modules what its configuration says is gone, where that has not been done."""
    with torch.device("cpu"):  # modules without weights yet may be made on the device "meta"; masks are not
        _fit(model, head_map(model))
        if pruned_neurons(model):
            _fit(model, neuron_map(model, 1))


def _fit(model: PreTrainedModel, slots: SlotMap) -> None:
    names = {name for name, _ in model.named_modules()}
    if not {block.output for block in slots.blocks} <= names:
        return  # a part of a model that has its layers elsewhere
    if isinstance(slots, HeadMap) and getattr(model.config, "head_map", None):
        _check_numbers(model, slots)
    after = slots.kept(model)
    whole = [
        columns_of(model.get_submodule(b.output), outputs=False) == slots.shape[1] * slots.width for b in slots.blocks
    ]
    cut(model, slots, after | torch.tensor(whole).unsqueeze(1), after)


def _check_numbers(model: PreTrainedModel, heads: HeadMap) -> None:
    """Refuse a map that came from another version, if this one's modules hold numbers that it does not know of.

    There they may have none, and take the number of heads from the weights.
    """
    wrote = other_writer(model.config)
    if not wrote:
        return
    search = importlib.import_module("gnorm.models.search")  # few need it
    unknown = sorted({name for found in search.numbers(model, heads) for name in found} - {*heads.counts})
    if unknown:
        raise UserError(
            f"head_map of this {model.config.model_type} was written on transformers {wrote}: on {VERSION} "
            f"{', '.join(unknown)} may count heads too. Load the folder `dense`, or take transformers {wrote}"
        )


def finish(model: PreTrainedModel, post_init: Callable[[PreTrainedModel], None]) -> None:
    """Call `PreTrainedModel.post_init`, as every model does when its modules are made, and cut them."""
    if not is_pruned(model.config):
        return post_init(model)
    with not_pruning(model.config):
        post_init(model)
    ignore_when_loading(model, NOTE)
    return rebuild(model)


@contextmanager
def rebuilding() -> Iterator[None]:
    """Let `from_pretrained` load pruned models inside the `with` block; `gnorm.hf` does so for good."""
    original = PreTrainedModel.post_init

    @functools.wraps(original)
    def post_init(self: PreTrainedModel) -> None:
        finish(self, original)

    if not hasattr(original, "cuts"):
        PreTrainedModel.post_init = post_init
    try:
        yield
    finally:
        PreTrainedModel.post_init = original
