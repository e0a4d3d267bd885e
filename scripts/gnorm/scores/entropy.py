"""Attention entropy: how evenly a head spreads its attention.

Eq. 3 and 18-20 of the paper: summed over the columns of each row of the attention
matrix, averaged over query positions, then over sentences. Three variants:
A = -sum a log a, B = -sum a log(a + eps), C = -sum (a + eps) log(a + eps).

The columns of a row are the tokens it may attend to: not padding, and in a causal model not later tokens.
(Counting later tokens would add the same -eps log eps to C of every head and make A, computed as written,
NaN in all heads.) A slot of several query heads has the mean of their entropies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from gnorm.engine.batches import Batch, each
from gnorm.engine.finite import Checks, check_differ, collected
from gnorm.engine.objectives import Mean
from gnorm.errors import UserError
from gnorm.files import load_tensors
from gnorm.logs import progress
from gnorm.models.heads import HeadMap
from gnorm.models.slots import as_evaluated, eager, places_of
from gnorm.models.versions import asking_for_attention

PRUNE = "highest"  # a head that attends evenly to all tokens is least informative
PASSES = ("1", "0")
ATTENTION = "forward"
ROWS = "entropy"
VARIANTS = ("A", "B", "C")


@dataclass
class RowEntropies:
    """Entropies of a batch's rows, rows x layers x heads, in float64."""

    values: dict[str, torch.Tensor]  # A with the limit 0 log 0 = 0, B, C
    nan: torch.Tensor  # query positions at which A, computed as written, is NaN
    inf: torch.Tensor  # ... and at which it is infinite
    logits: torch.Tensor


def of_rows(
    model: nn.Module, heads: HeadMap, batch: Batch, epsilon: float, checks: Checks | None = None
) -> RowEntropies:
    """Entropies of each row by itself: padding neither attends nor is attended to.

    Each layer's attention is reduced as soon as it exists and then dropped. `checks` see whether all are finite.
    """
    batch = batch.to(model.device)
    shape = (len(batch.labels), heads.layers, heads.heads)
    values = {v: torch.zeros(shape, dtype=torch.float64, device=model.device) for v in VARIANTS}
    nan = torch.zeros(shape, dtype=torch.int64, device=model.device)
    inf = torch.zeros_like(nan)
    real = batch.mask.bool()
    query, column, length = real[:, None, :], real[:, None, None, :], real.sum(1)[:, None]
    if heads.causal:
        column = column & torch.ones(2 * real.shape[1:], dtype=torch.bool, device=model.device).tril()
    kept = [places_of(still, model.device) for still in heads.kept(model)]
    handles = []

    def in_slots(of_heads: torch.Tensor) -> torch.Tensor:
        """Split the dimension of attention heads into slots x query heads."""
        return of_heads.unflatten(1, (of_heads.shape[1] // heads.queries, heads.queries))

    for row, block in enumerate(heads.blocks):
        layers = iter(block.layers)

        def reduce(_module, _args, output, layers=layers, still=kept[row], name=block.attention):
            layer = next(layers)
            if not isinstance(output, tuple) or len(output) < 2 or output[1] is None:
                raise UserError(f"{name} gives no attention matrix beside its output, which entropy needs")
            if not len(still):
                return (output[0], output[1].new_empty(0), *output[2:])
            a = output[1].double()
            written = a.log().mul_(a).masked_fill_(~column, 0)  # 0 * -inf is NaN, as in the paper
            at_query = -written.sum(-1)
            nan[:, layer, still] = (in_slots(at_query.isnan()).any(2) & query).sum(-1)
            inf[:, layer, still] = (in_slots(at_query.isinf()).any(2) & query).sum(-1)
            sums = {"A": written.masked_fill_(a == 0, 0).sum(-1)}
            del written
            shifted = (a + epsilon).log_().masked_fill_(~column, 0)
            sums["C"] = epsilon * shifted.sum(-1)
            sums["B"] = shifted.mul_(a).sum(-1)
            sums["C"] += sums["B"]  # (a + eps) log(a + eps), its parts
            for variant, total in sums.items():
                values[variant][:, layer, still] = -in_slots(total.masked_fill(~query, 0).sum(-1)).mean(2) / length
            return (output[0], output[1].new_empty(0), *output[2:])

        handles.append(model.get_submodule(block.attention).register_forward_hook(reduce))
    try:
        with torch.no_grad(), as_evaluated(model), eager(model):
            logits = model(**batch.inputs, **asking_for_attention(model)).logits
    finally:
        for handle in handles:
            handle.remove()
    with collected(checks, model, heads) as own:
        for entropies in values.values():
            own.slots(entropies, "the attention entropy", batch.rows)
    return RowEntropies(values, nan, inf, logits)


def score(
    model: nn.Module,
    heads: HeadMap,
    batches: list[Batch],
    epsilon: float = 1e-7,
    variant: str = "C",
    seen: Callable[[Batch, torch.Tensor], None] | None = None,
) -> torch.Tensor:
    checks, mean = Checks(model, heads), Mean()
    for batch, entropies in each(batches, lambda batch: of_rows(model, heads, batch, epsilon, checks)):
        mean.add(batch.weights.to(model.device), entropies.values[variant])
        if seen:
            seen(batch, entropies.logits)
    checks.look()
    return check_differ(heads.to_slots(mean.value()), "entropy", heads, model, batches)


def shard(
    model: nn.Module, heads: HeadMap, batches: list[Batch], epsilon: float, variant: str
) -> dict[str, torch.Tensor | dict[str, torch.Tensor]]:
    """Make the content of a shard: entropies by row, sums of each variant, and the number of rows not finite in A."""
    shape, checks = (heads.layers, heads.heads), Checks(model, heads)
    on_device = {"device": model.device}
    sums = {v: torch.zeros(shape, dtype=torch.float64, **on_device) for v in VARIANTS}
    nan, inf = torch.zeros(shape, dtype=torch.int64, **on_device), torch.zeros(shape, dtype=torch.int64, **on_device)
    work = each(batches, lambda batch: of_rows(model, heads, batch, epsilon, checks))
    order, parts = [], []
    for batch, entropies in progress(work, "batch", len(batches)):
        order += batch.positions.tolist()
        parts.append(entropies.values[variant])
        for v in VARIANTS:
            sums[v] += entropies.values[v].sum(0)
        nan += (entropies.nan > 0).sum(0)
        inf += (entropies.inf > 0).sum(0)
    checks.look()
    ranked = torch.zeros(len(order), *shape, dtype=torch.float64)
    ranked[order] = torch.cat(parts).cpu()
    return {
        "mean": ranked.mean(0),
        "ranked": ranked,
        "sums": {v: total.cpu() for v, total in sums.items()},
        "nan_rows": nan.cpu(),
        "inf_rows": inf.cpu(),
    }


def from_shards(
    heads: HeadMap, paths: Sequence[str | Path], weights: Sequence[int], model: str | None = None
) -> torch.Tensor:
    """Compute the score from shard files; `weights` says how often each row of all shards counts."""
    total, rows = torch.zeros(heads.layers, heads.heads, dtype=torch.float64), 0
    for shard in read_shards(paths, model):
        if shard["ranked"].shape[1:] != total.shape:
            raise UserError(
                f"{paths[0]} is of {tuple(shard['ranked'].shape[1:])} heads, the model has {tuple(total.shape)}"
            )
        counts = torch.tensor(weights[shard["first"] : shard["last"] + 1], dtype=torch.float64)
        total += torch.einsum("b,blh->lh", counts, shard["ranked"].double())
        rows += shard["count"]
    if rows != len(weights):
        raise UserError(f"the shards from {paths[0]} on hold {rows} rows, the dataset lists {len(weights)}")
    return check_differ(heads.to_slots(total / sum(weights)), "entropy", heads)


def read_shards(paths: Sequence[str | Path], model: str | None = None) -> Iterator[dict]:
    """Read shards in the order of their rows, one in memory at a time.

    The error names the shard and its first defect. `model` is the checkpoint that all shards must be of.
    """
    following, like = 0, None
    for path in paths:
        shard = load_tensors(path)
        wrong = _wrong(shard) or _unlike(shard, like) or _misplaced(shard, following)
        if not wrong and model is not None and shard["model"] != model:
            wrong = "it is of another model"
        if wrong:
            raise UserError(f"{path} is refused: {wrong}; delete it, and the next run makes it again")
        following = shard["last"] + 1
        like = {key: shard[key] for key in ("model", "variant", "epsilon")} | {"shape": shard["mean"].shape}
        yield shard


KEYS = "first last count mean rows variant epsilon ranked sums nan_rows inf_rows model".split()


def _wrong(shard: object) -> str:
    """Describe the first defect of a shard by itself; empty if there is none."""
    if not isinstance(shard, dict) or (missing := [key for key in KEYS if key not in shard]):
        return f"it has no {missing[0]!r}" if isinstance(shard, dict) else "it is not a shard of entropies"
    count, rows = shard["last"] - shard["first"] + 1, len(shard["rows"])
    if rows != count or shard["count"] != count:
        return f"it holds {rows} rows, not those from {shard['first']} to {shard['last']}"
    layers_heads = tuple(shard["mean"].shape)
    parts = {"ranked": shard["ranked"], **{f"sums of {v}": shard["sums"].get(v) for v in VARIANTS}}
    for name, part in parts.items():
        shape = (count, *layers_heads) if name == "ranked" else layers_heads
        if part is None or len(layers_heads) != 2 or tuple(part.shape) != shape:
            actual = None if part is None else tuple(part.shape)
            return f"its {name} has the shape {actual}, not {shape}"
        if not part.isfinite().all():
            *row, layer, head = (~part.isfinite()).nonzero()[0].tolist()
            of = f", row {shard['rows'][row[0]]}" if row else ""
            return f"its {name} is not finite in layer {layer}, head {head}{of}"
    if not torch.allclose(shard["ranked"].mean(0), shard["mean"], rtol=1e-9, atol=1e-12):
        return "its mean is not that of its rows"
    return ""


def _unlike(shard: dict, like: dict | None) -> str:
    """Describe how a shard differs from those before it; empty if it does not."""
    if like is None:
        return ""
    if shard["mean"].shape != like["shape"]:
        return f"it is of {tuple(shard['mean'].shape)} heads, the shards before it are of {tuple(like['shape'])}"
    if shard["model"] != like["model"]:
        return "it is of another model than the shards before it"
    for key in ("variant", "epsilon"):
        if shard[key] != like[key]:
            return f"its {key} is {shard[key]}, that of the shards before it {like[key]}"
    return ""


def _misplaced(shard: dict, following: int) -> str:
    if shard["first"] == following:
        return ""
    again = "a shard comes twice" if shard["first"] < following else "a shard is missing"
    return f"it starts at row {shard['first']}, but the shards before it end at {following - 1}: {again}"
