"""Tokens a second and, of language models, the text itself, as heads go in the order of each strategy's run 0."""

import torch

from gnorm.data.rows import read
from gnorm.engine.speed import Reader, Writer
from gnorm.files import atomic
from gnorm.logs import start
from gnorm.models import checkpoints
from gnorm.models.heads import head_map
from gnorm.pruning.speeds import measure
from gnorm.statistics.columns import order_of, read_run


def main(*, dataset_folder, checkpoint, trajectories, levels, metrics, generation, output):
    model, tokenizer = checkpoints.load(checkpoint)
    rows = read(dataset_folder, "evaluation")
    if checkpoints.task_of(model) == "language_model":
        measure_one = Writer(tokenizer, rows, checkpoints.positions(model), **generation)
    else:
        measure_one = Reader(tokenizer, rows)
    orders = {strategy: order_of(read_run(path)) for strategy, path in trajectories.items()}
    table = measure(model, head_map(model), measure_one, orders=orders, levels=levels, metrics=metrics)
    with atomic(output) as temporary:
        table.to_csv(temporary, index=False)


if __name__ == "__main__":
    params = snakemake.params
    start(snakemake.log[0], f"{snakemake.wildcards.model} speed")
    torch.set_num_threads(params.threads)
    main(
        dataset_folder=params.dataset_folder,
        checkpoint=snakemake.input.checkpoint,
        trajectories=dict(zip(params.strategies, snakemake.input.trajectories, strict=True)),
        levels=params.levels,
        metrics=params.metrics,
        generation=params.generation,
        output=snakemake.output[0],
    )
