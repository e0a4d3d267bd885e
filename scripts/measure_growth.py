"""How the cost of a scoring pass grows with rows, sentence length, layers and heads kept."""

import torch

from gnorm.benchmarks.growth import measure
from gnorm.files import atomic
from gnorm.logs import start


def main(*, repeats, output):
    with atomic(output) as temporary:
        measure(repeats).to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], "bench growth")
    torch.set_num_threads(snakemake.threads)
    main(repeats=snakemake.params.repeats, output=snakemake.output[0])
