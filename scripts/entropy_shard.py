"""Attention entropies of a shard of rows."""

import torch

from gnorm.data.rows import read
from gnorm.engine import batches
from gnorm.engine.finite import Checks
from gnorm.engine.memory import Probe, token_budget
from gnorm.files import digest, save_tensors
from gnorm.logs import progress, start
from gnorm.models import checkpoints
from gnorm.models.heads import head_map
from gnorm.scores.entropy import VARIANTS, of_rows


def main(
    dataset_folder,
    checkpoint,
    first,
    last,
    epsilon,
    variant,
    tokens,
    memory_mb,
    output,
    mean_file,
    budget=None,
    reuse_mb=0,
):
    model, tokenizer = checkpoints.load(checkpoint, attention="eager")
    heads = head_map(model)
    rows = read(dataset_folder, "entropy")[first : last + 1]
    probe = Probe(checkpoint, dataset_folder, budget, reuse_mb) if budget else None
    made = batches.make(tokenizer, rows, token_budget(tokens, model, heads, memory_mb, 0, probe), what="entropy rows")
    shape, checks = (heads.layers, heads.heads), Checks(model, heads)
    on_device = {"device": model.device}
    sums = {v: torch.zeros(shape, dtype=torch.float64, **on_device) for v in VARIANTS}
    nan, inf = torch.zeros(shape, dtype=torch.int64, **on_device), torch.zeros(shape, dtype=torch.int64, **on_device)
    work = batches.each(made, lambda batch: of_rows(model, heads, batch, epsilon, checks))
    order, parts = [], []
    for batch, found in progress(work, "batch", len(made)):
        order += batch.positions.tolist()
        parts.append(found.values[variant])
        for v in VARIANTS:
            sums[v] += found.values[v].sum(0)
        nan += (found.nan > 0).sum(0)
        inf += (found.inf > 0).sum(0)
    checks.look()
    ranked = torch.zeros(len(rows), *shape, dtype=torch.float64)
    ranked[order] = torch.cat(parts).cpu()
    sums, nan, inf = {v: total.cpu() for v, total in sums.items()}, nan.cpu(), inf.cpu()
    save_tensors(
        output,
        {
            "model": digest(checkpoint),
            "first": first,
            "last": last,
            "count": len(rows),
            "mean": ranked.mean(0),
            "rows": torch.tensor([row["row"] for row in rows]),
            "variant": variant,
            "epsilon": epsilon,
            "ranked": ranked,
            "sums": sums,
            "nan_rows": nan,
            "inf_rows": inf,
        },
    )
    save_tensors(mean_file, ranked.mean(0).float())


if __name__ == "__main__":
    wildcards = snakemake.wildcards
    start(snakemake.log[0], f"{wildcards.model} entropy {wildcards.first}-{wildcards.last}")
    torch.set_num_threads(snakemake.params.threads)
    main(
        snakemake.params.dataset_folder,
        snakemake.input.checkpoint,
        int(wildcards.first),
        int(wildcards.last),
        snakemake.params.epsilon,
        snakemake.params.variant,
        snakemake.params.tokens,
        snakemake.params.memory_mb,
        snakemake.output.shard,
        snakemake.output.mean,
        snakemake.params.budget,
        snakemake.resources.reuse_mb,
    )
