"""Join published entropy shards, compare with the published means, and rank heads by them."""

import pandas as pd
import torch

from gnorm.errors import UserError
from gnorm.files import atomic, load_tensors
from gnorm.logs import log, start

SAME = 1e-6  # the published means are float32
COLUMNS = ["model", "shards", "rows", "rows left out", "largest difference", "same"]


def mean_of(path):
    """A file's tensor, layers x heads."""
    tensor = load_tensors(path)
    if not isinstance(tensor, torch.Tensor) or tensor.dim() != 2:
        raise UserError(f"{path} does not hold one tensor of layers x heads")
    tensor = tensor.detach().double()
    if not torch.isfinite(tensor).all():
        raise UserError(f"{path} holds values that are not finite")
    return tensor


def parts(shards, counted):
    """(rows, file) of each shard, the merged file with its rows if there is one, and rows left out.

    Files named by their row counts alone are told apart by these: the merged one has as many rows as
    the others together.
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
    found = [(last - first + 1, path) for first, last, path in shards]
    merged = None
    if counted and shards:
        if len(counted) > 1:
            raise UserError(f"{counted[0][1]} and {counted[1][1]}: which is the mean of the shards?")
        merged = counted[0]
    elif counted:
        *found, merged = sorted(counted)
    rows = sum(rows for rows, _ in found)
    if merged and found and rows != merged[0]:
        raise UserError(f"{merged[1]} has {merged[0]} rows, its shards {rows}: one of them is short or missing")
    return found, merged, gaps


def join(found):
    """The mean of shards, weighted by rows, in float64."""
    total, count = 0, 0
    for rows, path in found:
        tensor = mean_of(path)
        if count and tensor.shape != total.shape:
            raise UserError(f"{path} is {tuple(tensor.shape)}, the shards before it are {tuple(total.shape)}")
        total, count = total + rows * tensor, count + rows
    return total / count


def ranks(entropy, tied):
    """(layer, head, entropy, rank) of each head, the highest entropy first; tied heads have one for all layers."""
    slots = entropy.mean(0, keepdim=True) if tied else entropy
    order = torch.argsort(slots.flatten(), descending=True, stable=True).tolist()
    heads = slots.shape[1]
    return [(i // heads, i % heads, slots.flatten()[i].item(), rank + 1) for rank, i in enumerate(order)]


def tied(curve_file, layers):
    """Whether a step of the published curve prunes a head in every layer."""
    if curve_file is None:
        return False
    return layers > 1 and pd.read_csv(curve_file)["Pruned_Heads"].diff().min() == layers


def main(models, check_file, ranks_file):
    """`models` has (model, shards, files named by rows, an accuracy curve or None) of each."""
    checks, ranked = [], []
    for model, shards, counted, curve_file in models:
        found, merged, gaps = parts(shards, counted)
        rows = sum(rows for rows, _ in found) or merged[0]
        joined, published = join(found) if found else None, mean_of(merged[1]) if merged else None
        difference = (joined - published).abs().max().item() if found and merged else None
        checks.append(
            {
                "model": model,
                "shards": len(found),
                "rows": rows,
                "rows left out": ", ".join(gaps),
                "largest difference": difference,
                "same": None if difference is None else difference <= SAME,
            }
        )
        if gaps:
            log.warning("%s: no shard has rows %s", model, ", ".join(gaps))
        if difference is not None and difference > SAME:
            log.warning("%s: the published mean differs from its shards' by %.2g", model, difference)
        entropy = joined if joined is not None else published
        ranked += [(model, *row) for row in ranks(entropy, tied(curve_file, len(entropy)))]
    with atomic(check_file) as temporary:
        pd.DataFrame(checks, columns=COLUMNS).to_csv(temporary, index=False)
    with atomic(ranks_file) as temporary:
        pd.DataFrame(ranked, columns=["model", "layer", "head", "entropy", "rank"]).to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], "published entropy")
    main(snakemake.params.models, snakemake.output.check, snakemake.output.ranks)
