"""Pruned models as folders, in two forms.

A compact folder holds the weights that are left, and its `config.json` lists what is gone as `pruned_heads` and
`pruned_neurons`. Plain transformers loads it after `import gnorm.hf`. A dense folder holds the unpruned shapes with
zeros for what is gone, listed as `zeroed_heads` and `zeroed_neurons`: it loads everywhere, and is no smaller. `load`
reads both, and what earlier releases of this project wrote.
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
from gnorm.models.rebuild import NOTE, is_pruned, rebuilding
from gnorm.models.slots import Repeated, projection


def save(folder: str | Path, model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write a compact folder."""
    checkpoints.save(folder, model, tokenizer, note=NOTE if is_pruned(model.config) else None)


def save_dense(folder: str | Path, model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write a dense folder."""
    checkpoints.save(folder, with_zeros(model), tokenizer)


def load(folder: str | Path, **options) -> tuple[nn.Module, HeadMap, PreTrainedTokenizerBase]:
    """Load a pruned model with all that is gone cut out; `options` are those of `checkpoints.load`."""
    with rebuilding():
        model, tokenizer = checkpoints.load(folder, pruned=True, **options)
    heads, zeroed = head_map(model), getattr(model.config, "zeroed_heads", {})
    surgery.prune(model, heads, [(int(row), head) for row, gone in zeroed.items() for head in gone])
    model.config.zeroed_heads = {}
    if zeroed := getattr(model.config, "zeroed_neurons", {}):
        slots = [(int(row), neuron) for row, gone in zeroed.items() for neuron in gone]
        surgery.prune(model, neuron_map(model, 1), slots)
        model.config.zeroed_neurons = {}
    return model, heads, tokenizer


def as_plain(folder: str | Path) -> nn.Module:
    """Load either folder as transformers does after `import gnorm.hf`."""
    auto = checkpoints.CLASSES[checkpoints.task_of(checkpoints.configuration(folder))]
    with rebuilding():
        return checkpoints.from_folder(auto, folder)[0].eval()


def with_zeros(model: nn.Module) -> nn.Module:
    """Copy a pruned model into unpruned shapes, with zeros for the removed weights."""
    model = copy.deepcopy(model)
    if any(pruned_heads(model).values()):
        _zero_heads(model, head_map(model))
    if pruned_neurons(model):
        _zero_neurons(model)
    return model.requires_grad_(False)


def _zero_heads(model: nn.Module, heads: HeadMap) -> None:
    """Restore the unpruned shapes of a model that lost heads."""
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
            setattr(attention, name, heads.heads * amount)
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
