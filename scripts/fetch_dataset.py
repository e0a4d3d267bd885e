"""Fetch a dataset from where its source says, into a parquet file."""

from gnorm.data import sources
from gnorm.logs import start

if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} dataset")
    sources.load(snakemake.params.entry["source"]).fetch_dataset(
        entry=snakemake.params.entry,
        path=snakemake.output[0],
        mirror=snakemake.params.mirror,
        archive=snakemake.input.get("archive"),
    )
