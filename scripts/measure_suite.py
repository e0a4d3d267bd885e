"""On a suite's own trained models: a whole trajectory step by step, and how exact the scores are."""

from gnorm.benchmarks.trained import measure
from gnorm.files import atomic
from gnorm.logs import start
from gnorm.workbench import Workbench


def main(*, models, repeats, outputs):
    """Write one CSV for each table; `models` has (name, checkpoint, parameters of its workbench) of each."""
    benches = ((name, Workbench.load(checkpoint=checkpoint, **bench)) for name, checkpoint, bench in models)
    for name, table in measure(benches, repeats).items():
        with atomic(outputs[name]) as temporary:
            table.to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], "bench suite")
    main(
        models=snakemake.params.models,
        repeats=snakemake.params.repeats,
        outputs=dict(snakemake.output.items()),
    )
