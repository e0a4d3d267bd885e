"""Published entropy files: join the shards, compare them with the published means, and rank heads by them."""

from __future__ import annotations

import pandas as pd
import torch

from gnorm.errors import UserError
from gnorm.files import load_tensors
from gnorm.logs import log
from gnorm.published.accuracies import MOST_HEADS, curve

SAME = 1e-6  # the published means are float32
CHECKED = ["model", "shards", "rows", "rows left out", "largest difference", "same"]
RANKED = ["model", "layer", "head", "entropy", "rank"]


def mean_of(path):
    """Read a file's tensor, layers x heads."""
    tensor = load_tensors(path)
    if not isinstance(tensor, torch.Tensor) or tensor.dim() != 2:
        raise UserError(f"{path} does not hold one tensor of layers x heads")
    if not 0 < tensor.numel() <= MOST_HEADS:
        raise UserError(f"{path} holds a tensor of {tuple(tensor.shape)}: from 1 to {MOST_HEADS:,} heads are possible")
    tensor = tensor.detach().double()
    if not torch.isfinite(tensor).all():
        raise UserError(f"{path} holds values that are not finite")
    return tensor


def parts(shards, counted):
    """List (rows, file) of each shard, the merged file with its rows if there is one, and rows left out.

    Among files named by their row counts alone, the merged one has as many rows as the others together.
    """
    shards = sorted(shards)
    gaps, following = [], 0
    for i, (first, last, path) in enumerate(shards):
        if last < first:
            raise UserError(f"{path} is named for no row at all")
        if first < following:
            raise UserError(f"{path} overlaps with {shards[i - 1][2]}")
        if first > following:
            gaps.append(f"{following}-{first - 1}" if first - 1 > following else f"{following}")
        following = last + 1
    counts = [(last - first + 1, path) for first, last, path in shards]
    merged = None
    if counted and shards:
        if len(counted) > 1:
            raise UserError(f"{counted[0][1]} and {counted[1][1]}: which is the mean of the shards?")
        merged = counted[0]
    elif counted:
        *counts, merged = sorted(counted)
    rows = sum(rows for rows, _ in counts)
    if merged and counts and rows != merged[0]:
        raise UserError(f"{merged[1]} has {merged[0]} rows, its shards {rows}: one of them is short or missing")
    return counts, merged, gaps


def join(counts):
    """Compute the mean of shards, weighted by rows, in float64."""
    total, count = 0, 0
    for rows, path in counts:
        tensor = mean_of(path)
        if count and tensor.shape != total.shape:
            raise UserError(f"{path} is {tuple(tensor.shape)}, the shards before it are {tuple(total.shape)}")
        total, count = total + rows * tensor, count + rows
    return total / count


def ranks(entropy, tied):
    """List (layer, head, entropy, rank) of each head, highest entropy first; tied heads have one for all layers."""
    slots = entropy.mean(0, keepdim=True) if tied else entropy
    order = torch.argsort(slots.flatten(), descending=True, stable=True).tolist()
    heads = slots.shape[1]
    return [(i // heads, i % heads, slots.flatten()[i].item(), rank + 1) for rank, i in enumerate(order)]


def tied(curve_file, layers):
    """Whether a step of the published curve prunes a head in every layer."""
    if curve_file is None:
        return False
    return layers > 1 and curve(curve_file)["heads_pruned"].diff().min() == layers


def check(model, shards, counted):
    """Make a model's line of the check, and its entropy: the mean of its shards, or the published one without any."""
    counts, merged, gaps = parts(shards, counted)
    joined, published = join(counts) if counts else None, mean_of(merged[1]) if merged else None
    difference = (joined - published).abs().max().item() if counts and merged else None
    same = None if difference is None else difference <= SAME
    if gaps:
        log.warning("%s: no shard has rows %s", model, ", ".join(gaps))
    if same is False:
        log.warning("%s: the published mean differs from its shards' by %.2g", model, difference)
    rows = sum(rows for rows, _ in counts) or merged[0]
    line = (model, len(counts), rows, ", ".join(gaps), difference, same)
    return dict(zip(CHECKED, line, strict=True)), joined if joined is not None else published


def compare(models):
    """Make the tables of checks and of ranks; `models` has (model, shards, files named by rows, a curve or None)."""
    checks, ranked = [], []
    for model, shards, counted, curve_file in models:
        line, entropy = check(model, shards, counted)
        checks.append(line)
        ranked += [(model, *row) for row in ranks(entropy, tied(curve_file, len(entropy)))]
    return pd.DataFrame(checks, columns=CHECKED), pd.DataFrame(ranked, columns=RANKED)
