"""Every trajectory and random trial in one long table."""

import pandas as pd

from gnorm.engine.metrics import at_steps
from gnorm.files import atomic
from gnorm.logs import log, start
from gnorm.statistics.columns import COLUMNS, STEPS, TRIALS, read_table


def labelled(path, numbers, **labels):
    """A table of trajectories or trials, with what its path says of it."""
    table = read_table(path, numbers)
    table["fraction_pruned"] = table["heads_pruned"] / (table["heads_pruned"] + table["heads_left"])
    return table.assign(**labels)


def main(*, trajectories, random, units, output, metrics=()):
    """`trajectories` and `random` have (file, model, strategy) of each."""
    parts = [
        labelled(path, numbers, model=model, strategy=strategy)
        for paths, numbers in ((trajectories, STEPS), (random, TRIALS))
        for path, model, strategy in paths
    ]
    table = pd.concat(parts, ignore_index=True)
    table = table.assign(unit=table["strategy"].map(units)).reindex(columns=[*COLUMNS, *at_steps(metrics)])
    table = table.astype(dict.fromkeys(("run", "trial", "step", "layer", "head"), "Int64"))
    log.info("%d rows", len(table))
    with atomic(output) as temporary:
        table.to_csv(temporary, index=False)


if __name__ == "__main__":
    params = snakemake.params
    start(snakemake.log[0], "tidy table")
    main(
        trajectories=params.trajectories,
        random=params.random,
        units=params.units,
        output=snakemake.output[0],
        metrics=params.metrics,
    )
