"""Prune a model head by head by one strategy, for one or more runs."""

from pathlib import Path

from gnorm.files import save_tensors
from gnorm.logs import start
from gnorm.pruning import parts
from gnorm.pruning.runs import prune
from gnorm.resume import State
from gnorm.statistics import outcomes
from gnorm.workbench import Workbench


def main(*, bench, runs, state, outputs, **settings):
    """Write a run's rows as soon as it is over, for whoever reads them while the next one is computed.

    `settings` are the other keywords of `prune`.
    """
    over, folder = [], Path(outputs.trajectories).parent
    for run in prune(bench, runs=runs, state=state, folder=folder, **settings):
        over.append(run)
        parts.write(outputs.trajectories, [run.table for run in over])
    save_tensors(outputs.scores, {run.number: run.scores for run in over})
    outcomes.write(outputs.outcomes, outcomes.join([run.outcomes for run in over]))
    state.sign(outputs.signature, outputs.trajectories, outputs.scores, outputs.outcomes)
    for run in over:
        state.part(f"run{run.number}").finish()


if __name__ == "__main__":
    wildcards, params = snakemake.wildcards, snakemake.params
    first, last = int(wildcards.first), int(wildcards.last)
    start(snakemake.log[0], f"{wildcards.model}{wildcards.own} {wildcards.strategy} {first}-{last}")
    bench = Workbench.load(checkpoint=snakemake.input.checkpoint, reuse_mb=snakemake.resources.reuse_mb, **params.bench)
    main(
        bench=bench,
        strategy=params.strategy,
        runs=range(first, last + 1),
        seed=params.seed,
        stop=params.stop,
        state=State.of_job(snakemake, bench.used, apart=("first", "last")),
        outputs=snakemake.output,
        shards=snakemake.input.get("shards", []),
    )
