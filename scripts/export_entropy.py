"""Mean entropies as a bare tensor under the published name."""

from gnorm.files import load_tensors, save_tensors
from gnorm.logs import start


def main(*, entropy, output):
    save_tensors(output, load_tensors(entropy)["mean"].float())


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} entropy")
    main(entropy=snakemake.input.entropy, output=snakemake.output[0])
