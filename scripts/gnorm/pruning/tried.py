"""What the workflow does with a model, once, on one row: for a model whose heads are a guess or a description."""

from __future__ import annotations

import copy
import json

import torch
from torch import nn
from transformers import PreTrainedModel

from gnorm.engine.batches import Batch
from gnorm.models import surgery
from gnorm.models.heads import HeadMap, keep
from gnorm.models.rebuild import rebuilding
from gnorm.models.slots import as_evaluated
from gnorm.scores import entropy, gnorm


def run(model: nn.Module, heads: HeadMap, inputs: dict[str, torch.Tensor], attention: bool) -> None:
    """Score, prune and build again; raises what goes wrong. With `attention` the model gives attention weights."""
    batch = _batch(model, inputs)
    gnorm.score(model, heads, [batch])
    if attention:
        entropy.score(model, heads, [batch])
    pruned = copy.deepcopy(model)
    if isinstance(model, PreTrainedModel):
        keep(pruned, heads)
    surgery.prune(pruned, heads, [(heads.shape[0] - 1, heads.shape[1] - 1)])
    gnorm.score(pruned, heads, [batch])
    if isinstance(model, PreTrainedModel):  # others are saved by their owners
        expected, found = (_logits(each, inputs) for each in (pruned, _again(pruned)))
        if (found - expected).abs().max() > 1e-5 * expected.abs().max():
            raise ValueError(f"built again, its logits are {(found - expected).abs().max():.2g} apart")


def _batch(model: nn.Module, inputs: dict[str, torch.Tensor]) -> Batch:
    """One row with labels of some kind, which the norm of the logits does not read."""
    ids, one = inputs["input_ids"], torch.ones(1, dtype=torch.float64)
    labels = ids if _logits(model, inputs).dim() > 2 else torch.zeros(1, dtype=torch.int64, device=ids.device)
    return Batch(inputs, labels, torch.zeros(1, dtype=torch.int64), one, torch.zeros(1, dtype=torch.int64))


def _logits(model: nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad(), as_evaluated(model):
        return model(**inputs).logits


def _again(pruned: PreTrainedModel) -> nn.Module:
    """Build a model from what would be saved of it: its configuration as text, and its weights."""
    config = type(pruned.config).from_dict(json.loads(pruned.config.to_json_string(use_diff=False)))
    with rebuilding():
        model = type(pruned)._from_config(config, attn_implementation=pruned.config._attn_implementation)
    model.to(pruned.device, pruned.dtype).load_state_dict(pruned.state_dict())
    return model
