"""Time one model shape: a greedy step, accuracy and entropy, naively and here."""

import torch

from gnorm.benchmarks.one_shape import measure
from gnorm.files import atomic
from gnorm.logs import start


def main(*, shape, repeats, evaluated, output):
    with atomic(output) as temporary:
        measure(shape, repeats, evaluated).to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], f"bench {snakemake.wildcards.shape}")
    torch.set_num_threads(snakemake.threads)
    main(
        shape=snakemake.wildcards.shape,
        repeats=snakemake.params.repeats,
        evaluated=snakemake.params.evaluated,
        output=snakemake.output[0],
    )
