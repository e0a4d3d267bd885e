"""The published accuracies, read as they are, in the form of a suite's own table of results."""

import pandas as pd

from gnorm.logs import log, start
from gnorm.published.accuracies import curve, trials
from gnorm.statistics.columns import COLUMNS, write_csv


def main(*, curves, random, output):
    """Join curves, (file, model, strategy) of each, and random trials, (files, model) of each."""
    parts = [curve(path).assign(model=model, strategy=strategy, run=0) for path, model, strategy in curves]
    parts += [trials(paths).assign(model=model, strategy="random") for paths, model in random]
    table = pd.concat(parts, ignore_index=True)
    # A model's last point has no head left: that is how many there were.
    heads = table.groupby("model")["heads_pruned"].transform("max")
    table = table.assign(heads_left=heads - table["heads_pruned"], fraction_pruned=table["heads_pruned"] / heads)
    table = table.assign(unit="heads").reindex(columns=COLUMNS)
    table = table.astype(dict.fromkeys(("run", "trial", "step", "layer", "head"), "Int64"))
    log.info("%d rows of %d models", len(table), table["model"].nunique())
    write_csv(table, output)


if __name__ == "__main__":
    start(snakemake.log[0], "published results")
    main(curves=snakemake.params.curves, random=snakemake.params.random, output=snakemake.output[0])
