"""The point to stop at, its mask, and the model's parameters before and after."""

from gnorm.files import atomic, read_json, write_json
from gnorm.logs import start
from gnorm.models import checkpoints
from gnorm.models.heads import head_map
from gnorm.pruning import masks
from gnorm.pruning.solutions import solve
from gnorm.statistics.columns import read_run


def main(*, checkpoint, trajectory, controls, settings, outputs):
    """Find the solution on run 0 of `trajectory`; `settings` are keywords of `solve`."""
    model, _ = checkpoints.load(checkpoint, on="cpu")  # it only counts parameters
    without = read_json(controls)["all heads"]
    all_pruned = without["correct"] / without["evaluated"]
    solution = solve(model, head_map(model), trajectory=read_run(trajectory), all_pruned=all_pruned, **settings)
    masks.write(outputs.mask, solution.mask)
    with atomic(outputs.parameters) as temporary:
        solution.parameters.to_csv(temporary, index=False)
    write_json(outputs.solution, solution.facts)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} solution")
    main(
        checkpoint=snakemake.input.checkpoint,
        trajectory=snakemake.input.trajectory,
        controls=snakemake.input.controls,
        settings=dict(snakemake.params.items()),
        outputs=snakemake.output,
    )
