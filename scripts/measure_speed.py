"""Tokens a second and, of language models, the text itself, as heads go in the order of each strategy's run 0."""

from gnorm.data.rows import read
from gnorm.engine.speed import Reader, Writer
from gnorm.logs import start
from gnorm.models import checkpoints
from gnorm.models.loaded import Loaded
from gnorm.pruning.speeds import measure
from gnorm.statistics.columns import order_of, read_run, write_csv


def main(*, bench, rows, trajectories, generation, output, **settings):
    if checkpoints.task_of(bench.model) == "language_model":
        measure_one = Writer(bench.tokenizer, rows, checkpoints.positions(bench.model), **generation)
    else:
        measure_one = Reader(bench.tokenizer, rows)
    orders = {strategy: order_of(read_run(path)) for strategy, path in trajectories.items()}
    write_csv(measure(bench, measure_one, orders=orders, **settings), output)


if __name__ == "__main__":
    params = snakemake.params
    start(snakemake.log[0], f"{snakemake.wildcards.model} speed")
    main(
        bench=Loaded.load(checkpoint=snakemake.input.checkpoint, **params.bench),
        rows=read(params.dataset_folder, "evaluation"),
        trajectories=dict(zip(params.strategies, snakemake.input.trajectories, strict=True)),
        levels=params.levels,
        metrics=params.metrics,
        generation=params.generation,
        output=snakemake.output[0],
    )
