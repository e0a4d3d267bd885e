"""Fetch a model and its tokenizer from the hub or its mirror."""

from gnorm.hub import fetch_model
from gnorm.logs import start

if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} model")
    fetch_model(
        snakemake.params.id,
        snakemake.params.revision,
        snakemake.params.mirror,
        snakemake.output[0],
    )
