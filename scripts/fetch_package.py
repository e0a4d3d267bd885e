"""Fetch an archive of a package from the package index or its mirror, and check it."""

from gnorm.data.packages import fetch
from gnorm.logs import start

if __name__ == "__main__":
    start(snakemake.log[0], snakemake.wildcards.archive)
    fetch(
        snakemake.params.package["package"],
        snakemake.params.package["version"],
        snakemake.params.package["kind"],
        snakemake.params.package["sha256"],
        snakemake.params.mirror,
        snakemake.output[0],
    )
