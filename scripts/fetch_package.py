"""Fetch an archive of a package from the package index or its mirror, and check it."""

from gnorm.data.archives import fetch
from gnorm.logs import start

if __name__ == "__main__":
    start(snakemake.log[0], snakemake.wildcards.archive)
    fetch(**snakemake.params.package, mirror=snakemake.params.mirror, path=snakemake.output[0])
