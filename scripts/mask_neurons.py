"""The neurons that a strategy leaves at its stop point, as a mask."""

from gnorm.files import read_json
from gnorm.logs import log, start
from gnorm.models import checkpoints
from gnorm.models.neurons import neuron_map
from gnorm.pruning import masks
from gnorm.statistics.curves import stop_point
from gnorm.statistics.results import STEPS, read_table


def main(checkpoint, trajectory_file, controls_file, group, tolerance, output):
    model, _ = checkpoints.load(checkpoint, on="cpu")
    neurons = neuron_map(model, group)
    without = read_json(controls_file)["all neurons"]
    accuracy = read_table(trajectory_file, STEPS)["accuracy"].tolist()
    step = stop_point(accuracy, without["correct"] / without["evaluated"], tolerance)
    mask = masks.of_step(trajectory_file, neurons, step)
    log.info("%d of %d groups of %d neurons are left", mask.sum(), mask.numel(), neurons.width)
    masks.write(output, mask)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} {snakemake.wildcards.strategy}")
    main(
        snakemake.input.checkpoint,
        snakemake.input.trajectory,
        snakemake.input.controls,
        snakemake.params.group,
        snakemake.params.tolerance,
        snakemake.output[0],
    )
