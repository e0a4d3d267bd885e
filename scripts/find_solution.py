"""The point to stop at, its mask, and the model's parameters before and after."""

from gnorm.files import read_json, write_json
from gnorm.logs import start
from gnorm.models.loaded import Loaded
from gnorm.pruning import masks
from gnorm.pruning.solutions import solve
from gnorm.statistics.columns import read_run, write_csv


def main(*, bench, trajectory, controls, settings, outputs):
    """Find the solution on run 0 of `trajectory`; `settings` are keywords of `solve`."""
    without = read_json(controls)["all heads"]
    all_pruned = without["correct"] / without["evaluated"]
    solution = solve(bench.model, bench.heads, trajectory=read_run(trajectory), all_pruned=all_pruned, **settings)
    masks.write(outputs.mask, solution.mask)
    write_csv(solution.parameters, outputs.parameters)
    write_json(outputs.solution, solution.facts)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} solution")
    settings = dict(snakemake.params.items())
    main(
        bench=Loaded.load(checkpoint=snakemake.input.checkpoint, on="cpu", **settings.pop("bench")),
        trajectory=snakemake.input.trajectory,
        controls=snakemake.input.controls,
        settings=settings,
        outputs=snakemake.output,
    )
