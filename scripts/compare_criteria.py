"""Score a model's heads by every criterion to compare, and prune it in the order of each."""

from gnorm.files import atomic
from gnorm.logs import start
from gnorm.pruning.comparison import compare
from gnorm.resume import State
from gnorm.workbench import Workbench


def main(*, bench, criteria, levels, runs, seed, state, outputs, shards=()):
    tables = compare(bench, criteria=criteria, levels=levels, runs=runs, seed=seed, state=state, shards=shards)
    for what, table in tables.items():
        with atomic(getattr(outputs, what)) as temporary:
            table.to_csv(temporary, index=False)
    state.finish()


if __name__ == "__main__":
    params = snakemake.params
    start(snakemake.log[0], f"{snakemake.wildcards.model} criteria")
    bench = Workbench.load(checkpoint=snakemake.input.checkpoint, reuse_mb=snakemake.resources.reuse_mb, **params.bench)
    main(
        bench=bench,
        criteria=params.criteria,
        levels=params.levels,
        runs=params.runs,
        seed=params.seed,
        state=State.of_job(snakemake, bench.used, apart=("runs",)),
        outputs=snakemake.output,
        shards=snakemake.input.get("shards", []),
    )
