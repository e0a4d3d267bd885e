"""Procedures to compare the engine with: the notebooks' procedure, loops over sentences, and the floor."""

from __future__ import annotations

import torch
from torch import nn

from gnorm.engine.batches import Batch
from gnorm.models.heads import HeadMap


def _head_norms(gradient: torch.Tensor, width: int) -> torch.Tensor:
    return gradient.view(-1, width, gradient.shape[1]).norm(dim=(1, 2)).cpu().double()


def notebooks(model: nn.Module, heads: HeadMap, batches: list[Batch], passes: int) -> torch.Tensor:
    """Compute a gradient of every weight for every batch, with all batches repeated for every layer."""
    model.requires_grad_()
    total = torch.zeros(3, *heads.shape, dtype=torch.float64)
    for layer in range(passes):
        for batch in batches:
            model.zero_grad()
            model(**batch.to(model.device).inputs).logits.norm().backward()
            for part, name in enumerate(heads.blocks[layer].projections):
                total[part, layer] += _head_norms(model.get_submodule(name).weight.grad, heads.width)
    model.zero_grad()
    model.requires_grad_(False)
    rows = sum(len(batch.labels) for batch in batches)
    return (total / rows).prod(0)


def sentences(model: nn.Module, heads: HeadMap, batches: list[Batch]) -> torch.Tensor:
    """Compute the paper's equations as they stand: one pass per sentence, for gradients of all layers' Q, K and V."""
    kept = heads.kept(model)
    parts = [(row, part) for row in range(len(heads.blocks)) if kept[row].any() for part in range(3)]
    weights = [model.get_submodule(heads.blocks[row].projections[part]).weight.requires_grad_() for row, part in parts]
    total = torch.zeros(3, *heads.shape, dtype=torch.float64)
    for batch in batches:
        value = model(**batch.to(model.device).inputs).logits.norm()
        for (row, part), gradient in zip(parts, torch.autograd.grad(value, weights), strict=True):
            total[part, row, kept[row]] += _head_norms(gradient, heads.width)
    model.requires_grad_(False)
    return (total / len(batches)).prod(0)


def floor(model: nn.Module, heads: HeadMap, batches: list[Batch]) -> None:
    """Run forward and activation-only backward on the same batches, without scoring."""
    for batch in batches:
        lowest = []

        def start(_module, _args, output, lowest=lowest):
            if not output.requires_grad:
                lowest.append(output.requires_grad_())

        handles = [model.get_submodule(name).register_forward_hook(start) for name in heads.blocks[0].projections]
        with torch.enable_grad():
            value = model(**batch.to(model.device).inputs).logits.norm(dim=-1).sum()
            torch.autograd.grad(value, lowest)
        for handle in handles:
            handle.remove()


@torch.inference_mode()
def accuracy(model: nn.Module, batches: list[Batch]) -> float:
    """Measure accuracy one sentence at a time."""
    right = [
        (model(**batch.to(model.device).inputs).logits.argmax(-1).cpu() == batch.labels).item() for batch in batches
    ]
    return sum(right) / len(right)


@torch.inference_mode()
def entropy(model: nn.Module, heads: HeadMap, batches: list[Batch], epsilon: float = 1e-7) -> torch.Tensor:
    """Compute variant C one sentence at a time, with every layer's attention kept until the end of its pass."""
    total = torch.zeros(heads.layers, heads.heads, dtype=torch.float64)
    for batch in batches:
        attentions = model(**batch.to(model.device).inputs, output_attentions=True).attentions
        for layer, attention in enumerate(attentions):
            a = attention[0] + epsilon
            total[layer] += -(a * a.log()).sum(-1).mean(-1).cpu().double()
    return total / len(batches)
