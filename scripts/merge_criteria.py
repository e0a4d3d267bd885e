"""Join the parts of a comparison of criteria, cell by cell as they were written."""

import pandas as pd

from gnorm.files import atomic
from gnorm.logs import start


def main(*, parts, outputs):
    """Join `parts`, files by what they hold. What a criterion costs is the same in every run."""
    for what in ("curves", "scores", "costs"):
        tables = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in getattr(parts, what)]
        with atomic(getattr(outputs, what)) as temporary:
            pd.concat(tables).drop_duplicates().to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} criteria")
    main(parts=snakemake.input, outputs=snakemake.output)
