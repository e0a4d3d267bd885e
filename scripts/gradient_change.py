"""How one layer's query gradient changes when a head is pruned (the paper's Figure 2)."""

import numpy as np
import torch

from gnorm.data.rows import read
from gnorm.devices import repeatably
from gnorm.engine import batches
from gnorm.files import atomic
from gnorm.logs import start
from gnorm.models import surgery
from gnorm.models.loaded import Loaded
from gnorm.models.slots import projection


def query_gradient(model, heads, batch, row):
    """Gradient of the logits' norm with respect to a block's query weights, pruned rows as zeros."""
    weight = projection(model, heads.blocks[row].query).weight.requires_grad_()
    batch = batch.to(model.device)
    with torch.enable_grad():
        (gradient,) = repeatably(lambda: torch.autograd.grad(model(**batch.inputs).logits.norm(), weight))
    full = torch.zeros(heads.heads, heads.width, heads.hidden, dtype=weight.dtype)
    full[heads.kept(model)[row]] = heads.of_slots(model, row, "query", gradient).cpu()
    return full.flatten(0, 1)


def pool(matrix, width):
    """Means over width x width squares."""
    rows, columns = (size // width for size in matrix.shape)
    return matrix[:, : columns * width].reshape(rows, width, columns, width).mean((1, 3))


def main(*, bench, rows, output):
    heads = bench.heads
    (batch,) = batches.make(bench.tokenizer, rows[:1], tokens=1)
    # Query weights of layer 1, after pruning (0, 0) and after pruning (1, 1); a model with one
    # row of slots has only row 0 to show.
    row = min(1, heads.shape[0] - 1)
    pruned = [(0, 0), (row, min(1, heads.heads - 1))]
    before = query_gradient(bench.model, heads, batch, row)
    change = []
    for slot in pruned:
        # Loaded, as the first was: elsewhere in memory a copy rounds differently, which shows in a difference.
        model = Loaded.load(checkpoint=bench.checkpoint).model
        surgery.prune(model, heads, [slot])
        change.append(pool(query_gradient(model, heads, batch, row) - before, heads.width).numpy())
    with atomic(output) as temporary:
        np.savez(temporary, change=np.stack(change), pruned=np.array(pruned), layer=np.array(row))


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} gradients")
    main(
        bench=Loaded.load(checkpoint=snakemake.input.checkpoint, **snakemake.params.bench),
        rows=read(snakemake.params.dataset_folder, "calibration"),
        output=snakemake.output[0],
    )
