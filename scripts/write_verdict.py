"""Decide every item of the paper, and of Sentinel-AI, that data can decide."""

from gnorm.files import write_text
from gnorm.logs import log, start
from gnorm.pages.verdict import markdown, readable
from gnorm.published import verdict
from gnorm.published.evidence import NEEDS, Evidence
from gnorm.shown import in_html, marked_up
from gnorm.statistics.columns import read_csv, write_csv
from gnorm.statistics.estimates import OfRows
from gnorm.statistics.intervals import Bootstrap
from gnorm.statistics.results import Results
from gnorm.tables import html

CAPTION = "Every item of the paper, and of Sentinel-AI's description of its benchmark, that data decide."


def main(*, suite, models, run, published, parameters, level, outputs):
    """Decide by the evidence of a run and of the published results; None where there is none."""
    table = verdict.decide(models, run, published, read_csv(parameters))
    for (part, status), count in table.groupby(["part", "status"], sort=False).size().items():
        log.info("%s: %d %s", part, count, status)
    write_csv(table, outputs.csv)
    warnings = run.guesses(models) if run else []
    for title, warning in warnings:
        log.warning("%s %s", title, warning)
    write_text(outputs.markdown, markdown(table, run is not None, suite, level, warnings))
    caption = " ".join([*(f"{in_html(title)} {marked_up(warning)}" for title, warning in warnings), marked_up(CAPTION)])
    own = {*table.columns} - {"model"}
    write_text(outputs.page, html(readable(table), [False] * len(table.columns), caption, "verdict", own))


if __name__ == "__main__":
    start(snakemake.log[0], "verdict")
    params, level = snakemake.params, snakemake.params.intervals["level"]
    run = None
    if params.run:
        results = Results(params.run, params.models, {}, NEEDS, files=snakemake.input.evidence)
        run = Evidence.of_run(results, OfRows(Bootstrap(**params.intervals), **params.outcomes), params.independent)
    main(
        suite=snakemake.wildcards.suite,
        models=params.models,
        run=run,
        published=Evidence.of_published(*map(read_csv, params.published), level) if params.published else None,
        parameters=snakemake.input.parameters,
        level=level,
        outputs=snakemake.output,
    )
