"""Prune in random orders, evaluating at the levels of the suite."""

from pathlib import Path

from gnorm.logs import start
from gnorm.pruning import parts
from gnorm.pruning.trials import measure
from gnorm.resume import State
from gnorm.statistics import outcomes
from gnorm.workbench import Workbench


def main(*, bench, trials, state, outputs, **settings):
    """`settings` are the other keywords of `measure`."""
    measured = measure(bench, trials=trials, state=state, folder=Path(outputs.trials).parent, **settings)
    tables, answered = zip(*measured, strict=True)
    parts.write(outputs.trials, tables)
    outcomes.write(outputs.outcomes, outcomes.join(answered))
    state.sign(outputs.signature, outputs.trials, outputs.outcomes)
    for trial in trials:
        state.part(f"trial{trial}").finish()


if __name__ == "__main__":
    wildcards, params = snakemake.wildcards, snakemake.params
    first, last = int(wildcards.first), int(wildcards.last)
    start(snakemake.log[0], f"{wildcards.model}{wildcards.own} {wildcards.strategy} {first}-{last}")
    bench = Workbench.load(checkpoint=snakemake.input.checkpoint, reuse_mb=snakemake.resources.reuse_mb, **params.bench)
    main(
        bench=bench,
        strategy=wildcards.strategy,
        unit=params.unit,
        trials=range(first, last + 1),
        levels=params.levels,
        seed=params.seed,
        state=State.of_job(snakemake, bench.used, apart=("first", "last")),
        outputs=snakemake.output,
    )
