"""Join entropy shards, weighted by rows in float64, and say how the variants behave."""

import torch
from scipy.stats import kendalltau

from gnorm.files import digest, save_tensors, write_json
from gnorm.logs import log, start
from gnorm.scores.entropy import VARIANTS, read_shards


def merge(paths, model=None):
    """Means of each variant, non-finite counts and the row count; one shard in memory at a time."""
    sums, nan, inf, rows = None, 0, 0, 0
    for shard in read_shards(paths, model):
        rows += len(shard["rows"])
        sums = {v: (sums[v] if sums else 0) + shard["sums"][v] for v in VARIANTS}
        nan, inf = nan + shard["nan_rows"], inf + shard["inf_rows"]
    return {v: sums[v] / rows for v in VARIANTS}, nan, inf, rows


def diagnose(means, *, nan, inf, rows, epsilon):
    """Appendix C of the paper as numbers."""
    least = {"B": means["B"], "C - B": means["C"] - means["B"], "A - B": means["A"] - means["B"]}
    order = {v: torch.argsort(means[v].flatten(), stable=True).tolist() for v in VARIANTS}
    shift = {}
    for v in ("B", "C"):
        difference = means[v] - means["A"]
        where = divmod(int(difference.abs().argmax()), difference.shape[1])
        shift[v] = {"value": difference[where].item(), "layer_head": list(where)}
    return {
        "rows": rows,
        "epsilon": epsilon,
        "heads_with_nan": int((nan > 0).sum()),
        "heads_with_inf": int((inf > 0).sum()),
        "nan_rows": nan.tolist(),
        "inf_rows": inf.tolist(),
        "largest_shift": shift,
        "least": {name: values.min().item() for name, values in least.items()},
        "same_order": {v: order[v] == order["A"] for v in ("B", "C")},
        "kendall_tau": {v: float(kendalltau(means[v].flatten(), means["A"].flatten()).statistic) for v in ("B", "C")},
    }


def main(*, shards, checkpoint, variant, epsilon, outputs):
    means, nan, inf, rows = merge(shards, digest(checkpoint))
    diagnostics = diagnose(means, nan=nan, inf=inf, rows=rows, epsilon=epsilon)
    log.info("%d rows; NaN in A for %d heads", rows, diagnostics["heads_with_nan"])
    save_tensors(outputs.entropy, {"mean": means[variant], "rows": rows, "variant": variant, "variants": means})
    write_json(outputs.diagnostics, diagnostics)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model}{snakemake.wildcards.own} entropy")
    main(
        shards=snakemake.input.shards,
        checkpoint=snakemake.input.checkpoint,
        variant=snakemake.params.variant,
        epsilon=snakemake.params.epsilon,
        outputs=snakemake.output,
    )
