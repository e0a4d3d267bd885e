"""Join published entropy shards, compare with the published means, and rank heads by them."""

from gnorm.logs import start
from gnorm.published import entropies
from gnorm.statistics.columns import write_csv


def main(*, models, check_file, ranks_file):
    """`models` has (model, shards, files named by rows, an accuracy curve or None) of each."""
    for table, path in zip(entropies.compare(models), (check_file, ranks_file), strict=True):
        write_csv(table, path)


if __name__ == "__main__":
    start(snakemake.log[0], "published entropy")
    main(models=snakemake.params.models, check_file=snakemake.output.check, ranks_file=snakemake.output.ranks)
