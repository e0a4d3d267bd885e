"""Decide every item of the paper, and of Sentinel-AI, that data can decide."""

from gnorm.files import write_text
from gnorm.logs import log, start
from gnorm.published import verdict
from gnorm.shown import in_html, marked_up
from gnorm.statistics.columns import read_csv, write_csv
from gnorm.statistics.results import Results
from gnorm.tables import html

CAPTION = "Every item of the paper, and of Sentinel-AI's description of its benchmark, that data decide."


def of_run(root, models, independent, files):
    """The evidence of a finished suite, from `files` of it."""
    reading = Results(root, models, {}, ("tidy", "entropy", "gradients", "criteria", "speeds", "splits"), files=files)
    entropy, speeds = ({model: read(model) for model in models} for read in (reading.entropy, reading.speeds))
    return verdict.Evidence(
        tidy=reading.tidy(),
        tolerance=verdict.RUN_POINTS,
        independent=tuple(independent),
        entropy={model: diagnostics for model, diagnostics in entropy.items() if diagnostics is not None},
        gradients={model: reading.gradients(model) for model in models},
        criteria={model: reading.score_curves(model) for model in models},
        speeds={model: table for model, table in speeds.items() if table is not None},
        splits={model: reading.splits(model) for model in models},
    )


def of_published(tidy, merged):
    """The evidence of the authors' files."""
    joined = read_csv(merged).set_index("model").to_dict("index")
    return verdict.Evidence(tidy=read_csv(tidy), tolerance=verdict.PRINTED, published=True, merged=joined)


def main(*, suite, models, run, published, parameters, outputs):
    """Decide by the evidence of a run and of the published results; None where there is none."""
    table = verdict.decide(models, run, published, read_csv(parameters))
    for (part, status), count in table.groupby(["part", "status"], sort=False).size().items():
        log.info("%s: %d %s", part, count, status)
    write_csv(table, outputs.csv)
    warnings = run.guesses(models) if run else []
    for title, warning in warnings:
        log.warning("%s %s", title, warning)
    write_text(outputs.markdown, verdict.markdown(table, run is not None, suite, warnings))
    caption = " ".join([*(f"{in_html(title)} {marked_up(warning)}" for title, warning in warnings), marked_up(CAPTION)])
    columns = table.columns
    write_text(outputs.page, html(table.fillna(""), [False] * len(columns), caption, "verdict", {*columns} - {"model"}))


if __name__ == "__main__":
    start(snakemake.log[0], "verdict")
    params, files = snakemake.params, snakemake.input.evidence
    main(
        suite=snakemake.wildcards.suite,
        models=params.models,
        run=of_run(params.run, params.models, params.independent, files) if params.run else None,
        published=of_published(*params.published) if params.published else None,
        parameters=snakemake.input.parameters,
        outputs=snakemake.output,
    )
