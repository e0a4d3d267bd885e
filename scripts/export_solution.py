"""Save the pruned solution as a checkpoint that transformers loads by itself, with a card of what it is."""

from gnorm.data.rows import splits
from gnorm.files import atomic, read_json, write_json
from gnorm.logs import start
from gnorm.pruning.exports import export
from gnorm.workbench import Workbench


def seen(dataset_folder):
    """How many evaluation rows were trained or scored on."""
    lists = splits(dataset_folder)
    return len(set(lists["evaluation"]) & {*lists["train"], *lists["calibration"]})


def main(*, bench, solution, heads, title, suite, seen, outputs):
    with atomic(outputs.checkpoint) as temporary:
        card, times = export(
            bench,
            solution=read_json(solution),
            shared=read_json(heads)["shared"],
            title=title,
            suite=suite,
            seen=seen,
            folder=temporary,
        )
        (temporary / "README.md").write_text(card, encoding="utf-8")
    write_json(outputs.latency, times)


if __name__ == "__main__":
    params = snakemake.params
    start(snakemake.log[0], f"{snakemake.wildcards.model} export")
    main(
        bench=Workbench.load(checkpoint=snakemake.input.checkpoint, on="cpu", **params.bench),
        solution=snakemake.input.solution,
        heads=snakemake.input.heads,
        title=params.title,
        suite=snakemake.wildcards.suite,
        seen=seen(params.bench["dataset_folder"]),
        outputs=snakemake.output,
    )
