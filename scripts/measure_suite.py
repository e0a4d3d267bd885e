"""On a suite's own trained models: a whole trajectory step by step, and how exact the scores are."""

import torch

from gnorm.benchmarks.trained import measure
from gnorm.files import atomic
from gnorm.logs import start


def main(*, models, tokens, memory_mb, repeats, outputs):
    """Write one CSV for each table; `models` has (name, checkpoint, dataset folder) of each."""
    for name, table in measure(models, tokens, memory_mb, repeats).items():
        with atomic(outputs[name]) as temporary:
            table.to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], "bench suite")
    torch.set_num_threads(snakemake.params.threads)
    main(
        models=snakemake.params.models,
        tokens=snakemake.params.tokens,
        memory_mb=snakemake.params.memory_mb,
        repeats=snakemake.params.repeats,
        outputs=dict(snakemake.output.items()),
    )
