"""Random trials under a published workbook name: one group, or all groups joined."""

from gnorm.logs import start
from gnorm.pages import workbooks
from gnorm.statistics.columns import TRIALS, read_table


def main(*, trials, first, last, output):
    table = read_table(trials, TRIALS)
    workbooks.write(output, {"Sheet1": workbooks.random_table(table[table["trial"].between(first, last)])})


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} random {snakemake.wildcards.group}")
    first, last = snakemake.params.trials
    main(trials=snakemake.input.trials, first=first, last=last, output=snakemake.output[0])
