"""Attention entropies of a shard of rows."""

import torch

from gnorm.engine import batches
from gnorm.files import save_tensors
from gnorm.logs import start
from gnorm.scores.entropy import shard
from gnorm.workbench import Workbench


def main(*, bench, first, last, epsilon, variant, outputs):
    rows = bench.rows("entropy")[first : last + 1]
    made = batches.make(bench.tokenizer, rows, bench.tokens, what="entropy rows")
    entropies = shard(bench.model, bench.heads, made, epsilon, variant)
    of_rows = {"first": first, "last": last, "count": len(rows), "rows": torch.tensor([row["row"] for row in rows])}
    save_tensors(outputs.shard, {"model": bench.digest, **of_rows, "variant": variant, "epsilon": epsilon, **entropies})
    save_tensors(outputs.mean, entropies["mean"].float())


if __name__ == "__main__":
    wildcards, params = snakemake.wildcards, snakemake.params
    start(snakemake.log[0], f"{wildcards.model}{wildcards.own} entropy {wildcards.first}-{wildcards.last}")
    bench = Workbench.load(
        checkpoint=snakemake.input.checkpoint,
        reuse_mb=snakemake.resources.reuse_mb,
        attention="eager",
        keeps_outputs=False,
        **params.bench,
    )
    main(
        bench=bench,
        first=int(wildcards.first),
        last=int(wildcards.last),
        epsilon=params.epsilon,
        variant=params.variant,
        outputs=snakemake.output,
    )
