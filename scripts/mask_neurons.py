"""The neurons that a strategy leaves at its stop point, as a mask."""

from gnorm.files import read_json
from gnorm.logs import log, start
from gnorm.models.loaded import Loaded
from gnorm.models.neurons import neuron_map
from gnorm.pruning import masks
from gnorm.statistics.columns import read_run
from gnorm.statistics.curves import stop_point


def main(*, bench, trajectory, controls, group, tolerance, output):
    neurons = neuron_map(bench.model, group)
    without = read_json(controls)["all neurons"]
    accuracy = read_run(trajectory)["accuracy"].tolist()
    step = stop_point(accuracy, without["correct"] / without["evaluated"], tolerance)
    mask = masks.of_step(trajectory, neurons, step)
    log.info("%d of %d groups of %d neurons are left", mask.sum(), mask.numel(), neurons.width)
    masks.write(output, mask)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} {snakemake.wildcards.strategy}")
    main(
        bench=Loaded.load(checkpoint=snakemake.input.checkpoint, on="cpu"),
        trajectory=snakemake.input.trajectory,
        controls=snakemake.input.controls,
        group=snakemake.params.group,
        tolerance=snakemake.params.tolerance,
        output=snakemake.output[0],
    )
