"""Save the pruned solution as checkpoints that transformers loads, with a card of what they are."""

from gnorm.data.rows import splits
from gnorm.files import atomic, read_json, write_json
from gnorm.logs import start
from gnorm.pruning.exports import export
from gnorm.workbench import Workbench


def main(*, bench, solution, heads, facts, outputs):
    """`facts` are the model's title, its suite, and how many evaluation rows were also trained or scored on."""
    with atomic(outputs.checkpoint) as compact, atomic(outputs.dense) as dense:
        times = export(
            bench,
            solution=read_json(solution),
            shared=read_json(heads)["shared"],
            compact=compact,
            dense=dense,
            **facts,
        )
    write_json(outputs.latency, times)


if __name__ == "__main__":
    params = snakemake.params
    start(snakemake.log[0], f"{snakemake.wildcards.model} export")
    main(
        bench=Workbench.load(checkpoint=snakemake.input.checkpoint, on="cpu", **params.bench),
        solution=snakemake.input.solution,
        heads=snakemake.input.heads,
        facts={
            "title": params.title,
            "suite": snakemake.wildcards.suite,
            "seen": splits(params.bench["dataset_folder"])["seen"],
        },
        outputs=snakemake.output,
    )
