"""Gnorm: the product of the mean gradient norms of a head's Q, K and V blocks.

Eq. 9-17 of the paper: for each sentence the l2 norm of the gradient of ||F(X)|| with
respect to the head's rows of W_Q, W_K and W_V, averaged over sentences, multiplied.

Autograd computes no weight gradient. For a sentence with projection inputs X (T x d) and
output gradients G_h (T x w) the block's gradient is G_h^T X, whose squared norm is
sum(G_h * (X X^T G_h)); the form with fewer products is used. One forward and one backward of the sum of all sentences'
objectives gives every sentence's G, because sentences do not interact.

A slot that is a group of query heads has all their rows of W_Q and the group's own of W_K and W_V; a query
head pruned by itself has its own rows of W_Q and its group's of W_K and W_V.

The authors' notebooks instead take one gradient per batch, of the norm of all its logits, and
divide the summed norms by the number of rows: `granularity: batch` does that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import torch
from torch import nn

from gnorm.engine import objectives
from gnorm.engine.batches import Batch, each, in_order, kernels_broke, out_of_memory
from gnorm.engine.finite import Checks, check_differ
from gnorm.engine.passes import SCALE, Reading, Seen, backward, finite
from gnorm.errors import UserError
from gnorm.models.heads import HeadMap
from gnorm.models.slots import on_device, places_of, projection

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PRUNE = "lowest"
PASSES = ("1", "1")
BATCHED = {"granularity": "batch"}


def batches(
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[dict],
    weights: Sequence[int],
    tokens: int,
    batch_rows: int = 32,
    **_others,
) -> list[Batch]:
    """Make the batches of `granularity: batch`: in dataset order, `batch_rows` each, whatever the token budget."""
    counted = [i for i, weight in enumerate(weights) for _ in range(weight)]
    ordered = in_order(tokenizer, [rows[i] for i in counted], batch_rows, "calibration rows")
    return [replace(batch, positions=torch.tensor(counted)[batch.positions]) for batch in ordered]


def score(
    model: nn.Module,
    heads: HeadMap,
    batches: list[Batch],
    objective: str = "logit_norm",
    granularity: str = "sentence",
    precision: str = "float32",
    seen: Seen | None = None,
    **_others,
) -> torch.Tensor:
    checks, norms = Checks(model, heads), objectives.Mean()

    def work(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        try:
            return squared_block_norms(model, heads, batch, objective, granularity, precision, checks)
        except (RuntimeError, MemoryError) as error:
            # These batches are part of the definition, so they are never cut.
            if granularity == "batch" and out_of_memory(error) and not kernels_broke(error):
                size = len(batch.labels)
                message = f"{size} rows do not fit into memory: lower scores.gnorm.batch_rows, or granularity: sentence"
                raise UserError(message) from error
            raise

    for batch, (squared, logits) in each(batches, work):
        for part, name in enumerate("QKV"):
            checks.slots(squared[:, part], f"the squared gradient norm of {name}", batch.rows)
        weights = objectives.weights(batch, objective).to(model.device)
        counted = weights if granularity == "sentence" else weights.new_ones(1)
        norms.add(counted, squared.sqrt(), weights.sum())
        if seen and precision == "float32":  # accuracy is never measured with rounded weights
            seen(batch, logits)
    checks.look()
    # In float64 the product of three norms has room for 1e-100 each.
    return check_differ(finite(norms.value().prod(0), "gnorm", heads), "gnorm", heads, model, batches)


def reading(
    objective: str = "logit_norm", granularity: str = "sentence", precision: str = "float32", **_others
) -> Reading | None:
    """The reading of a shared pass; None with one gradient per batch, which cannot be shared."""
    if granularity == "batch":
        return None
    return Reading((block_norms,), torch.sqrt, lambda norms: norms.prod(0), objective, precision)


def squared_block_norms(
    model: nn.Module,
    heads: HeadMap,
    batch: Batch,
    objective: str,
    granularity: str = "sentence",
    precision: str = "float32",
    checks: Checks | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Squared gradient norms, sentences x (Q, K, V) x slots, in float64, and the logits; pruned slots are 0.

    With `granularity: batch` the batch counts as one long sentence.
    """
    whole = granularity == "batch"
    norms = partial(block_norms, whole=True) if whole else block_norms
    differentiated = partial(objectives.of_batch, objective=objective) if whole else objective
    signals, logits = backward(model, heads, batch, (norms,), differentiated, precision, checks)
    return signals[norms], logits


@contextmanager
def block_norms(model: nn.Module, heads: HeadMap, batch: Batch, whole: bool = False) -> Iterator[torch.Tensor]:
    """Squared norms of the gradients of Q, K and V, rows x 3 x slots; a signal (see `gnorm.engine.passes`).

    A block's norms are computed during the backward pass, as soon as its last gradient arrives; only tied layers
    wait for each other.
    """
    kept = heads.kept(model)
    real = batch.mask.unsqueeze(-1).to(model.dtype)
    squared = torch.zeros(1 if whole else len(batch.labels), 3, *heads.shape, dtype=torch.float64, device=model.device)
    columns = [places_of(still, model.device) for still in kept]
    widths = (heads.width, heads.key_width, heads.key_width)
    inputs: dict[int, list[torch.Tensor]] = defaultdict(list)
    gradients: dict[int, dict[tuple[int, int], torch.Tensor]] = defaultdict(dict)  # (part, run) of each block

    def reduce(row: int) -> None:
        runs, of_parts = inputs.pop(row), gradients.pop(row)
        # Gradients of layers that share a block add up before the norm: stacked along T they are one problem.
        x = torch.cat([run * real for run in runs], dim=1) if len(runs) > 1 else runs[0] * real
        parts = [[of_parts[part, run] for run in range(len(runs))] for part in range(3)]
        g = [torch.cat(of_runs, dim=1) if len(runs) > 1 else of_runs[0] for of_runs in parts]
        if whole:
            x, g = x.flatten(0, 1).unsqueeze(0), [part.flatten(0, 1).unsqueeze(0) for part in g]
        for part, norms in enumerate(squared_norms(x, g, widths)):
            shared = part > 0 and heads.share > 1
            of_slots = norms[:, on_device(heads.sharing(kept[row])[1], model.device)] if shared else norms
            squared[:, part, row, columns[row]] = of_slots / SCALE**2

    def watch(row: int, parts: tuple[int, ...]):
        """Make the hook of a projection that gives `parts` of Q, K and V."""
        runs = count()
        sizes = [heads.sizes(kept[row])[part] for part in parts]

        def record(_module, args, output):
            run = next(runs)
            if 0 in parts:
                inputs[row].append(args[0].detach())

            def arrived(gradient):
                for part, own in zip(parts, gradient.split(sizes, dim=-1), strict=True):
                    gradients[row][part, run] = own
                if len(gradients[row]) == 3 * len(heads.blocks[row].layers):
                    reduce(row)

            output.register_hook(arrived)

        return record

    handles = [
        projection(model, name).register_forward_hook(watch(row, parts))
        for row, block in enumerate(heads.blocks)
        if kept[row].any()
        for name, parts in block.sources
    ]
    try:
        yield squared
    finally:
        for handle in handles:
            handle.remove()


def squared_norms(x: torch.Tensor, g: Sequence[torch.Tensor], widths: Sequence[int]) -> list[torch.Tensor]:
    """||g_h^T x||^2 of each part: sentences x heads; x is B x T x d, each part of g is B x T x (H*width).

    A head's terms at one token, or of one row of its block, are added up in their own precision, and these sums in
    float64: many GPUs compute in float64 at a 32nd or a 64th of their speed in float32.
    """
    rows, length, size = x.shape
    columns = sum(part.shape[-1] for part in g)
    gram = length * (size + columns) < size * columns  # which form takes fewer products
    between = x @ x.transpose(1, 2) if gram else None
    squared = []
    for part, width in zip(g, widths, strict=True):
        part = part.to(x.dtype)
        if gram:
            terms = (part * (between @ part)).view(rows, length, -1, width)
            squared.append(terms.sum(dim=3).sum(dim=1, dtype=torch.float64).clamp_min(0))
        else:
            direct = (part.transpose(1, 2) @ x).view(rows, -1, width, size)
            squared.append(direct.square_().sum(dim=3).sum(dim=2, dtype=torch.float64))
    return squared
