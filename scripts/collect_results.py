"""Every trajectory and random trial in one long table."""

from gnorm.logs import log, start
from gnorm.statistics import tidy
from gnorm.statistics.columns import write_csv


def main(*, trajectories, random, units, output, metrics=()):
    """`trajectories` and `random` have (file, model, strategy) of each; `tidy.joined` says more."""
    table = tidy.joined(trajectories=trajectories, random=random, units=units, metrics=metrics)
    log.info("%d rows", len(table))
    write_csv(table, output)


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
