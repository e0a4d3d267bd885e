"""Score a model's heads by every criterion to compare, and prune it in the order of each."""

from pathlib import Path

from gnorm.logs import start
from gnorm.pruning import parts
from gnorm.pruning.comparison import compare, costs
from gnorm.resume import State
from gnorm.statistics import outcomes
from gnorm.workbench import Workbench


def main(*, bench, criteria, runs, state, outputs, **settings):
    """`settings` are the other keywords of `compare`."""
    folder = Path(outputs.curves).parent
    tables = compare(bench, criteria=criteria, runs=runs, state=state, folder=folder, **settings)
    curves, scores, answered = zip(*tables, strict=True)
    parts.write(outputs.curves, curves)
    parts.write(outputs.scores, scores)
    parts.write(outputs.costs, [costs(bench, criteria)])
    outcomes.write(outputs.outcomes, outcomes.join(answered))
    state.sign(outputs.signature, outputs.curves, outputs.scores, outputs.costs, outputs.outcomes)
    for run in runs:
        state.part(f"run{run}").finish()


if __name__ == "__main__":
    wildcards, params = snakemake.wildcards, snakemake.params
    first, last = int(wildcards.first), int(wildcards.last)
    start(snakemake.log[0], f"{wildcards.model}{wildcards.own} criteria {first}-{last}")
    bench = Workbench.load(checkpoint=snakemake.input.checkpoint, reuse_mb=snakemake.resources.reuse_mb, **params.bench)
    main(
        bench=bench,
        criteria=params.criteria,
        levels=params.levels,
        runs=range(first, last + 1),
        seed=params.seed,
        state=State.of_job(snakemake, bench.used, apart=("first", "last")),
        outputs=snakemake.output,
        shards=snakemake.input.get("shards", []),
    )
