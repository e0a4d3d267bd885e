"""Pruned models as folders that plain transformers loads, with the same outputs.

Where the library rebuilds a pruned model from its configuration, the folder holds the remaining weights. Where it
cannot (Llama, Qwen2; GPT-2 and DistilBERT with a layer that has no heads; neurons, in any family), the folder has
the unpruned shapes with zeros for the removed weights. `zeroed_heads` and `zeroed_neurons` in its configuration
list them, and `load` cuts them out again.
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.pytorch_utils import Conv1D

from gnorm.models import checkpoints, surgery
from gnorm.models.heads import HeadMap, head_map, pruned_heads
from gnorm.models.neurons import neuron_map, pruned_neurons, set_pruned
from gnorm.models.slots import Repeated, projection


def as_it_is(model: nn.Module, heads: HeadMap) -> bool:
    """Whether plain transformers rebuilds the model in its pruned shapes."""
    return _heads_reload(model, heads) and not pruned_neurons(model)


def _heads_reload(model: nn.Module, heads: HeadMap) -> bool:
    kept = heads.kept(model)
    return bool(kept.all() or heads.textpruner or (heads.reloads and kept.any(1).all()))


def save(folder: str | Path, model: nn.Module, heads: HeadMap, tokenizer: PreTrainedTokenizerBase) -> None:
    checkpoints.save(folder, model if as_it_is(model, heads) else with_zeros(model, heads), tokenizer)


def load(folder: str | Path, **options) -> tuple[nn.Module, HeadMap, PreTrainedTokenizerBase]:
    """Load what `save` wrote and cut out all that was pruned; `options` are those of `checkpoints.load`."""
    model, tokenizer = checkpoints.load(folder, **options)
    heads, zeroed = head_map(model), getattr(model.config, "zeroed_heads", {})
    surgery.prune(model, heads, [(int(row), head) for row, gone in zeroed.items() for head in gone])
    model.config.zeroed_heads = {}
    if zeroed := getattr(model.config, "zeroed_neurons", {}):
        slots = [(int(row), neuron) for row, gone in zeroed.items() for neuron in gone]
        surgery.prune(model, neuron_map(model, 1), slots)
        model.config.zeroed_neurons = {}
    return model, heads, tokenizer


def with_zeros(model: nn.Module, heads: HeadMap) -> nn.Module:
    """Copy a pruned model into shapes that the library builds, with zeros for the removed weights."""
    model = copy.deepcopy(model)
    if not _heads_reload(model, heads):
        _zero_heads(model, heads)
    if pruned_neurons(model):
        _zero_neurons(model)
    return model.requires_grad_(False)


def _zero_heads(model: nn.Module, heads: HeadMap) -> None:
    """Restore the unpruned shapes of a model that lost heads by this package's own surgery."""
    kept = heads.kept(model)
    for row, block in enumerate(heads.blocks):
        if kept[row].all():
            continue
        attention = model.get_submodule(block.attention)
        own = kept[row].repeat_interleave(heads.width)
        used = torch.zeros(heads.heads // heads.share, dtype=torch.bool)
        used[heads.sharing(kept[row])[0]] = True
        shared = used.repeat_interleave(heads.key_width)
        for name, parts in block.sources:
            module = projection(model, name)
            _spread(module, torch.cat([(own, shared, shared)[part] for part in parts]), outputs=True)
            if isinstance(model.get_submodule(name), Repeated):
                model.set_submodule(name, module)
                setattr(attention, heads.repeats, heads.share)
        _spread(projection(model, block.output), own, outputs=False)
        for name, amount in heads.counts.items():
            setattr(attention, name, getattr(attention, name) + int((~kept[row]).sum()) * amount)
        surgery.give_back_class(attention)
    model.config.zeroed_heads = dict(pruned_heads(model))
    pruned_heads(model).clear()


def _zero_neurons(model: nn.Module) -> None:
    neurons = neuron_map(model, 1)
    kept = neurons.kept(model)
    for row in (~kept).any(1).nonzero().flatten().tolist():
        for name in neurons.blocks[row].up:
            _spread(model.get_submodule(name), kept[row], outputs=True)
        _spread(model.get_submodule(neurons.blocks[row].output), kept[row], outputs=False)
    model.config.zeroed_neurons = pruned_neurons(model)
    set_pruned(model, {})


def _spread(module: nn.Module, columns: torch.Tensor, outputs: bool) -> None:
    """Put a projection's output or input columns where `columns` is true, zeros elsewhere."""
    columns = columns.to(module.weight.device)
    along = 0 if outputs != isinstance(module, Conv1D) else 1
    shape = list(module.weight.shape)
    shape[along] = len(columns)
    weight = module.weight.new_zeros(shape)
    weight.index_copy_(along, columns.nonzero().flatten(), module.weight.data)
    module.weight = nn.Parameter(weight)
    if outputs and module.bias is not None:
        bias = module.bias.new_zeros(len(columns))
        bias[columns] = module.bias.data
        module.bias = nn.Parameter(bias)
    surgery.set_size(module, len(columns), outputs)
