"""Decide every item of the paper, and of Sentinel-AI, that data can decide."""

import pandas as pd

from gnorm.files import atomic, write_text
from gnorm.logs import log, start
from gnorm.published import verdict
from gnorm.statistics.results import Results
from gnorm.tables import html

CAPTION = "Every item of the paper, and of Sentinel-AI's description of its benchmark, that data decide."


def of_run(root, models, files):
    """The evidence of a finished suite, from `files` of it."""
    reading = Results(root, models, {}, ("tidy", "entropy", "gradients", "criteria", "speeds", "splits"), files=files)
    entropy, speeds = ({model: read(model) for model in models} for read in (reading.entropy, reading.speeds))
    return verdict.Evidence(
        tidy=reading.tidy(),
        tolerance=verdict.RUN_POINTS,
        entropy={model: diagnostics for model, diagnostics in entropy.items() if diagnostics is not None},
        gradients={model: reading.gradients(model) for model in models},
        criteria={model: reading.score_curves(model) for model in models},
        speeds={model: table for model, table in speeds.items() if table is not None},
        splits={model: reading.splits(model) for model in models},
    )


def of_published(tidy, merged):
    """The evidence of the authors' files."""
    joined = pd.read_csv(merged).set_index("model").to_dict("index")
    return verdict.Evidence(tidy=pd.read_csv(tidy), tolerance=verdict.PRINTED, merged=joined)


def main(*, suite, models, run, published, parameters, csv, markdown, page):
    """Decide by the evidence of a run and of the published results; None where there is none."""
    table = verdict.decide(models, run, published, pd.read_csv(parameters))
    for (part, status), count in table.groupby(["part", "status"], sort=False).size().items():
        log.info("%s: %d %s", part, count, status)
    with atomic(csv) as temporary:
        table.to_csv(temporary, index=False)
    write_text(markdown, verdict.markdown(table, run is not None, suite))
    write_text(page, html(table.fillna(""), [False] * len(table.columns), CAPTION, "verdict"))


if __name__ == "__main__":
    start(snakemake.log[0], "verdict")
    params, files = snakemake.params, snakemake.input.evidence
    main(
        suite=snakemake.wildcards.suite,
        models=params.models,
        run=of_run(params.run, params.models, files) if params.run else None,
        published=of_published(*params.published) if params.published else None,
        parameters=snakemake.input.parameters,
        **dict(snakemake.output.items()),
    )
