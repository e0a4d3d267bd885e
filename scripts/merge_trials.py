"""Join the shards of random trials into one table."""

import pandas as pd

from gnorm.errors import UserError
from gnorm.logs import start
from gnorm.statistics.columns import TRIALS, read_table, write_csv


def main(*, paths, trials, output):
    table = pd.concat([read_table(path, TRIALS) for path in paths], ignore_index=True).sort_values(
        ["trial", "heads_pruned"]
    )
    numbers = sorted(table["trial"].unique())
    if numbers != list(range(trials)):
        raise UserError(f"{output}: expected trials 0 to {trials - 1}, the shards hold {numbers}")
    write_csv(table, output)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model}{snakemake.wildcards.own} trials")
    main(paths=snakemake.input.shards, trials=snakemake.params.trials, output=snakemake.output[0])
