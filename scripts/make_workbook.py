"""All tables in one workbook, a sheet each."""

from pathlib import Path

import pandas as pd

from gnorm.logs import start
from gnorm.pages import workbooks


def main(paths, output):
    workbooks.write(output, {Path(path).stem: pd.read_csv(path) for path in paths})


if __name__ == "__main__":
    start(snakemake.log[0], "workbook")
    main([*snakemake.input.tables, snakemake.input.tidy], snakemake.output[0])
