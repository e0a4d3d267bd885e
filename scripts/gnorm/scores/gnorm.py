"""Gnorm: the product of the mean gradient norms of a head's Q, K and V blocks.

Eq. 9-17 of the paper: for each sentence the l2 norm of the gradient of ||F(X)|| with
respect to the head's rows of W_Q, W_K and W_V, averaged over sentences, multiplied.

No weight gradient is asked of autograd. For a sentence with projection inputs X (T x d) and
output gradients G_h (T x w) the block's gradient is G_h^T X, whose squared norm is
sum(G_h * (X X^T G_h)); the form with fewer products is taken. One forward and one backward of the sum of all sentences'
objectives gives every sentence's G, because sentences do not interact.

The authors' notebooks instead take one gradient a batch, of the norm of all its logits, and
divide the summed norms by the number of rows: `granularity: batch` does that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from gnorm.batches import Batch, in_order, make
from gnorm.heads import HeadMap
from gnorm.rows import NO_CLASS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def batches(
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[dict],
    weights: Sequence[int],
    tokens: int,
    granularity: str = "sentence",
    batch_rows: int = 32,
    **_others,
) -> list[Batch]:
    """By length within the token budget; for `granularity: batch` in dataset order, `batch_rows` each."""
    if granularity == "sentence":
        return make(tokenizer, rows, tokens, weights)
    return in_order(
        tokenizer, [row for row, weight in zip(rows, weights, strict=True) for _ in range(weight)], batch_rows
    )


def score(
    model: nn.Module,
    heads: HeadMap,
    batches: Iterable[Batch],
    objective: str = "logit_norm",
    granularity: str = "sentence",
    **_others,
) -> torch.Tensor:
    norms = torch.zeros(3, *heads.shape, dtype=torch.float64)
    rows = 0.0
    for batch in batches:
        batch = batch.to(model.device)
        weights = batch.weights
        if objective == "task_loss":  # a row without a class has no loss
            weights = weights * (batch.labels != NO_CLASS)
        squared = squared_block_norms(model, heads, batch, objective, granularity)
        counted = weights if granularity == "sentence" else weights.new_ones(1)
        norms += torch.einsum("b,bplh->plh", counted, squared.sqrt()).cpu()
        rows += weights.sum().item()
    result = (norms / rows).prod(0)
    if not torch.isfinite(result).all():
        layer, head = (~torch.isfinite(result)).nonzero()[0].tolist()
        raise FloatingPointError(f"the Gnorm score of layer {layer}, head {head} is not finite")
    return result


def squared_block_norms(
    model: nn.Module, heads: HeadMap, batch: Batch, objective: str, granularity: str = "sentence"
) -> torch.Tensor:
    """Squared gradient norms, sentences x (Q, K, V) x slots, in float64; pruned slots are 0.

    With `granularity: batch` the batch counts as one long sentence.
    """
    inputs: dict[int, list[torch.Tensor]] = defaultdict(list)
    outputs: dict[int, list[torch.Tensor]] = defaultdict(list)  # Q, K, V of each run of the block
    kept = heads.kept(model)
    handles = []
    for row, block in enumerate(heads.blocks):
        if not kept[row].any():
            continue
        for name in block.projections:

            def record(_module, args, output, row=row, first=name == block.query):
                if not output.requires_grad:  # the graph starts at the lowest projections
                    output.requires_grad_()
                if first:
                    inputs[row].append(args[0].detach())
                outputs[row].append(output)
                return output

            handles.append(model.get_submodule(name).register_forward_hook(record))
    whole = granularity == "batch"
    count = 1 if whole else len(batch.labels)
    squared = torch.zeros(count, 3, *heads.shape, dtype=torch.float64, device=model.device)
    if not handles:
        return squared
    try:
        with torch.enable_grad():
            value = _objective(model(**batch.inputs).logits, batch.labels, objective, whole)
            flat = [output for row in outputs for output in outputs[row]]
            gradients = iter(torch.autograd.grad(value, flat))
    finally:
        for handle in handles:
            handle.remove()
    real = batch.mask.to(next(iter(inputs.values()))[0].dtype).unsqueeze(-1)
    for row, runs in outputs.items():
        taken = [next(gradients) * real for _ in runs]
        # Layers that share a block add up before the norm: stacked along T they are one problem.
        stacked = torch.stack([torch.cat(taken[part::3], dim=1) for part in range(3)], dim=2)
        x = torch.cat([x * real for x in inputs[row]], dim=1)
        if whole:
            x, stacked = x.flatten(0, 1).unsqueeze(0), stacked.flatten(0, 1).unsqueeze(0)
        squared[:, :, row, kept[row].to(squared.device)] = _squared_norms(x, stacked, heads.width)
    return squared


def _objective(logits: torch.Tensor, labels: torch.Tensor, objective: str, whole: bool) -> torch.Tensor:
    if objective == "logit_norm":
        return logits.norm() if whole else logits.norm(dim=-1).sum()
    return nn.functional.cross_entropy(logits, labels, ignore_index=NO_CLASS, reduction="sum")


def _squared_norms(x: torch.Tensor, g: torch.Tensor, width: int) -> torch.Tensor:
    """||g_h^T x||^2 of each sentence, part and head; x is B x T x d, g is B x T x 3 x (H*width)."""
    rows, length, size = x.shape
    g = g.view(rows, length, -1, width)
    # Norms as small as 1e-25 would underflow when squared in float32: scale each block to 1.
    scale = g.abs().amax(dim=(1, 3), keepdim=True).clamp_min(torch.finfo(g.dtype).tiny)
    g = g / scale
    columns = g.shape[2] * width
    if length * (size + columns) < size * columns:  # fewer products through the Gram matrix
        product = (x @ x.transpose(1, 2)) @ g.flatten(2)
        squared = (g.flatten(2) * product).view_as(g).sum(dim=(1, 3), dtype=torch.float64)
    else:
        direct = g.flatten(2).transpose(1, 2) @ x
        squared = direct.view(rows, -1, width, size).pow(2).sum(dim=(2, 3), dtype=torch.float64)
    squared = squared.clamp_min(0) * scale[:, 0, :, 0].double().pow(2)
    return squared.view(rows, 3, -1)
