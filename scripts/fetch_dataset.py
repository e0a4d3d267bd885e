"""Fetch a split of a dataset from the hub or its mirror."""

from gnorm.hub import fetch_dataset
from gnorm.logs import start

if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} dataset")
    fetch_dataset(
        snakemake.params.id,
        snakemake.params.revision,
        snakemake.params.config,
        snakemake.params.split,
        snakemake.params.mirror,
        snakemake.output[0],
    )
