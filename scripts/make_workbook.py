"""All tables in one workbook, a sheet each."""

from pathlib import Path

from gnorm.logs import start
from gnorm.pages import workbooks
from gnorm.statistics.columns import read_csv


def main(*, tables, output):
    workbooks.write(output, {Path(path).stem: read_csv(path) for path in tables})


if __name__ == "__main__":
    start(snakemake.log[0], "workbook")
    main(tables=[*snakemake.input.tables, snakemake.input.tidy], output=snakemake.output[0])
