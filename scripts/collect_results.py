"""Every trajectory and random trial in one long table."""

import pandas as pd

from gnorm.engine.metrics import at_steps
from gnorm.files import atomic
from gnorm.logs import log, start
from gnorm.statistics.results import COLUMNS, STEPS, TRIALS, read_table


def trajectory(path, model, strategy, run):
    table = read_table(path, STEPS)
    table["heads_pruned"] = table["heads_left"].iloc[0] - table["heads_left"]
    table["fraction_pruned"] = table["heads_pruned"] / table["heads_left"].iloc[0]
    return table.assign(model=model, strategy=strategy, run=run)


def trials(path, model, strategy):
    table = read_table(path, TRIALS)
    table["fraction_pruned"] = table["heads_pruned"] / table["heads_pruned"].max()
    return table.assign(model=model, strategy=strategy)


def main(trajectories, random, units, output, metrics=()):
    parts = [trajectory(*entry) for entry in trajectories] + [trials(*entry) for entry in random]
    table = pd.concat(parts, ignore_index=True)
    table = table.assign(unit=table["strategy"].map(units)).reindex(columns=[*COLUMNS, *at_steps(metrics)])
    table = table.astype(dict.fromkeys(("run", "trial", "step", "layer", "head"), "Int64"))
    log.info("%d rows", len(table))
    with atomic(output) as temporary:
        table.to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], "tidy table")
    main(
        snakemake.params.trajectories,
        snakemake.params.random,
        snakemake.params.units,
        snakemake.output[0],
        snakemake.params.metrics,
    )
