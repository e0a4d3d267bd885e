"""The figure PruningResults of the runs that are finished, at any time, and what is missing in it."""

import tempfile
from pathlib import Path

from gnorm import layout
from gnorm.figures import pruningresults, style
from gnorm.logs import log, start
from gnorm.statistics import tidy, unfinished
from gnorm.statistics.columns import write_csv
from gnorm.statistics.results import Results


def draw(found, *, folder, models, units, strategies, settings):
    """Draw the curves in `found`, by way of a table in a folder beside the figure."""
    drawn = {model: title for model, title in models.items() if any(model == other for other, _ in found)}
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".preview-", dir=folder) as scratch:
        listed = [(f"{scratch}/{i}.csv", *curve) for i, curve in enumerate(found)]
        for path, *curve in listed:
            write_csv(found[tuple(curve)], path)  # in the scratch folder
        joined = tidy.joined(trajectories=listed, random=[], units=units, metrics=())
        write_csv(joined, layout.within(scratch, layout.TIDY))
        return pruningresults.draw(Results(scratch, drawn, strategies, pruningresults.NEEDS), settings)


def main(*, trajectories, runs, now, dpi, outputs, **shown):
    """`trajectories` has (file, model, strategy) of each; draws those that are there as `draw` is told to."""
    found, missing, outdated = unfinished.there(trajectories, runs, now)
    for word, curves in (("missing", missing), ("not drawn", outdated)):
        for (model, strategy), said in curves.items():
            log.info("%s: %s of %s (%s)", word, strategy, shown["models"][model], said)
    found = {curve: table for curve, table in found.items() if shown["units"][curve[1]] == "heads"}
    if not found:
        log.info("no run is finished yet: there is nothing to draw")
        return
    figure = draw(found, folder=Path(outputs[0]).parent, **shown)
    asked = {(model, strategy) for _, model, strategy in trajectories}
    title = f"preview: {len(asked) - len(missing)} of {len(asked)} curves have all their runs"
    if outdated:
        title += f"; {len(outdated)} of earlier settings, not drawn"
    figure.suptitle(title, fontsize=9)
    style.save(figure, *outputs, dpi)
    log.info("drawn: %s", outputs[0])
    log.info("compared: settings of runs and files as they are now; `snakemake -n` says which files are due as well")


if __name__ == "__main__":
    start(snakemake.log[0], "preview")
    main(**dict(snakemake.params.items()))
