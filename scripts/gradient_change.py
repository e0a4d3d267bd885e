"""How one layer's query gradient changes when a head is pruned (the paper's Figure 2)."""

import numpy as np
import torch

from gnorm.data.rows import read
from gnorm.devices import repeatably
from gnorm.engine import batches
from gnorm.files import atomic
from gnorm.logs import start
from gnorm.models import checkpoints, surgery
from gnorm.models.heads import head_map
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


def main(*, dataset_folder, checkpoint, output):
    model, tokenizer = checkpoints.load(checkpoint)
    heads = head_map(model)
    (batch,) = batches.make(tokenizer, read(dataset_folder, "calibration")[:1], tokens=1)
    # Query weights of layer 1, after pruning (0, 0) and after pruning (1, 1); a model with one
    # row of slots has only row 0 to show.
    row = min(1, heads.shape[0] - 1)
    pruned = [(0, 0), (row, min(1, heads.heads - 1))]
    before = query_gradient(model, heads, batch, row)
    change = []
    for slot in pruned:
        model, _ = checkpoints.load(checkpoint)
        surgery.prune(model, heads, [slot])
        change.append(pool(query_gradient(model, heads, batch, row) - before, heads.width).numpy())
    with atomic(output) as temporary:
        np.savez(temporary, change=np.stack(change), pruned=np.array(pruned), layer=np.array(row))


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} gradients")
    torch.set_num_threads(snakemake.params.threads)
    main(
        dataset_folder=snakemake.params.dataset_folder,
        checkpoint=snakemake.input.checkpoint,
        output=snakemake.output[0],
    )
