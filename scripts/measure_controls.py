"""Metrics and size of a model without any heads, without any neurons, and without both, beside the untouched one."""

from gnorm.data.rows import splits
from gnorm.files import write_json
from gnorm.logs import start
from gnorm.pruning.controls import measure
from gnorm.workbench import Workbench


def main(*, bench, common, output):
    write_json(output, measure(bench, common))


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} controls")
    bench = Workbench.load(
        checkpoint=snakemake.input.checkpoint,
        reuse_mb=snakemake.resources.reuse_mb,
        keeps_outputs=False,
        **snakemake.params.bench,
    )
    common = splits(snakemake.params.bench["dataset_folder"])["majority"]
    main(bench=bench, common=common, output=snakemake.output[0])
