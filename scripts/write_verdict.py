"""Decide every item of the paper, and of Sentinel-AI, that data can decide."""

import pandas as pd

from gnorm.files import atomic, read_json, write_text
from gnorm.logs import log, start
from gnorm.published import verdict
from gnorm.statistics.results import Results
from gnorm.tables import html

CAPTION = "Every item of the paper, and of Sentinel-AI's description of its benchmark, that data decide."


def of_run(root, models, files):
    """What a finished suite holds, of `files`."""
    results = Results(root, models, {}, ("tidy", "entropy", "gradients", "criteria", "speeds"), files=files)
    entropy, speeds = ({model: read(model) for model in models} for read in (results.entropy, results.speeds))
    return verdict.Evidence(
        tidy=results.tidy(),
        tolerance=verdict.RUN_POINTS,
        entropy={model: found for model, found in entropy.items() if found is not None},
        gradients={model: results.gradients(model) for model in models},
        criteria={model: results.criteria(model, "curves") for model in models},
        speeds={model: found for model, found in speeds.items() if found is not None},
        splits={model: read_json(f"{root}/{model}/dataset/splits.json") for model in models},
    )


def of_published(root):
    merged = pd.read_csv(f"{root}/entropy.csv").set_index("model").to_dict("index")
    return verdict.Evidence(tidy=pd.read_csv(f"{root}/tidy.csv"), tolerance=verdict.PRINTED, merged=merged)


def main(suite, models, run_folder, published_folder, files, parameters_file, csv, markdown, page):
    run = of_run(run_folder, models, files) if run_folder else None
    published = of_published(published_folder) if published_folder else None
    table = verdict.decide(models, run, published, pd.read_csv(parameters_file))
    for (part, status), count in table.groupby(["part", "status"], sort=False).size().items():
        log.info("%s: %d %s", part, count, status)
    with atomic(csv) as temporary:
        table.to_csv(temporary, index=False)
    write_text(markdown, verdict.markdown(table, run is not None, suite))
    write_text(
        page,
        html(table.fillna(""), [False] * len(table.columns), CAPTION, "verdict"),
    )


if __name__ == "__main__":
    start(snakemake.log[0], "verdict")
    main(
        snakemake.wildcards.suite,
        snakemake.params.models,
        snakemake.params.run,
        snakemake.params.published,
        snakemake.input.found,
        snakemake.input.parameters,
        snakemake.output.csv,
        snakemake.output.markdown,
        snakemake.output.page,
    )
