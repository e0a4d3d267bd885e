"""Attribution: integrated gradients over a layer's attention matrices (the paper's Eq. 5-7, Hao et al. 2020).

Attr = A * (1/m) sum_k dF/dA at (k/m) A, where all heads of the layer are scaled together and F is one number a
sentence. A head's score is the mean over sentences of the largest entry of Attr. Layers that share a slot are
scaled one at a time, and the slot gets their mean.

A head's output A V is linear in A, so the layer is run with (k/m) A by scaling its heads' outputs by k/m; the
gradient with respect to A then comes out k/m times too small.
"""

from __future__ import annotations

from itertools import count

import torch
from torch import nn

from gnorm.engine import objectives
from gnorm.engine.batches import Batch, each
from gnorm.engine.finite import Checks, check_differ, collected
from gnorm.engine.passes import attention_weights, finite
from gnorm.models.heads import HeadMap
from gnorm.models.slots import as_evaluated, eager, places_of
from gnorm.models.versions import asking_for_attention

PRUNE = "lowest"
PASSES = ("steps * layers", "steps * layers")  # backward to the scaled layer
ATTENTION = "backward"


def score(
    model: nn.Module,
    heads: HeadMap,
    batches: list[Batch],
    steps: int = 20,
    objective: str = "label_probability",
) -> torch.Tensor:
    checks, mean = Checks(model, heads), objectives.Mean()
    for batch, largest in each(batches, lambda batch: of_rows(model, heads, batch, steps, objective, checks)):
        mean.add(objectives.weights(batch, objective).to(model.device), largest)
    checks.look()
    score = finite(heads.to_slots(mean.value()), "attribution", heads)
    return check_differ(score, "attribution", heads, model, batches)


def of_rows(model: nn.Module, heads: HeadMap, batch: Batch, steps: int, objective: str, checks: Checks) -> torch.Tensor:
    """The largest attribution of each row, rows x layers x heads, in float64; 0 for pruned heads."""
    batch = batch.to(model.device)
    real = batch.mask.bool()
    square = real[:, None, :, None] & real[:, None, None, :]
    if heads.causal:  # no token attends to a later one
        square = square & torch.ones(2 * real.shape[1:], dtype=torch.bool, device=model.device).tril()
    largest = torch.zeros(len(batch.labels), heads.layers, heads.heads, dtype=torch.float64, device=model.device)
    for row, still in enumerate(heads.kept(model)):
        for run, layer in enumerate(heads.blocks[row].layers if still.any() else ()):
            total = 0.0
            for k in range(1, steps + 1):
                matrix, gradient = scaled(model, heads, batch, row, run, k / steps, objective, checks)
                total = total + gradient
            attributed = (matrix * total / steps).masked_fill(~square, float("-inf"))
            of_slots = attributed.unflatten(1, (int(still.sum()), heads.queries))
            largest[:, layer, places_of(still, model.device)] = of_slots.amax((2, 3, 4)).double()
    return largest


def scaled(
    model: nn.Module,
    heads: HeadMap,
    batch: Batch,
    row: int,
    run: int,
    share: float,
    objective: str,
    checks: Checks | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute A of the block `row` in its `run`-th run, and dF/dA with A scaled to `share` of it."""
    block = heads.blocks[row]
    matrices: list[torch.Tensor] = []

    def only(hook):
        """Call `hook` in the wanted run only."""
        runs = count()
        return lambda *arguments: hook(*arguments) if next(runs) == run else None

    def start(_module, _args, output):
        if not output.requires_grad:  # weights are frozen, so the layers below stay out of the graph
            output.requires_grad_()

    query, output, attention = (model.get_submodule(name) for name in (block.query, block.output, block.attention))
    handles = [
        query.register_forward_hook(only(start)),
        output.register_forward_pre_hook(only(lambda _module, args: (args[0] * share, *args[1:]))),
        attention.register_forward_hook(only(lambda _module, _args, given: matrices.append(attention_weights(given)))),
    ]
    try:
        with torch.inference_mode(False), torch.enable_grad(), as_evaluated(model), eager(model):
            logits = model(**batch.inputs, **asking_for_attention(model)).logits
            with collected(checks, model, heads) as own:
                own.logits(batch, logits)
            value = objectives.of_rows(logits, batch, objective).sum()
            (gradient,) = torch.autograd.grad(value, matrices)
    finally:
        for handle in handles:
            handle.remove()
    return matrices[0].detach(), gradient / share
