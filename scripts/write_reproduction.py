"""The reproduction report of a finished suite: one page for readers, and the same as Markdown."""

import platform
from importlib import metadata
from pathlib import Path

import pandas as pd

from gnorm.files import read_json, write_text
from gnorm.hardware import processor
from gnorm.logs import start
from gnorm.pages import document, reproduction
from gnorm.statistics.columns import read_csv

TEXT = ("paper", "published", "this run", "difference", "it takes")  # of the verdict, where there may be nothing
HERE = ("snakemake", "numpy", "pandas")


def versions(signatures):
    """Versions and devices that the runs were made with, and the machine that wrote this page."""
    own = [read_json(path)["belongs_to"] for path in signatures]
    found = {name: sorted({str(of[name]) for of in own}) for name in ("transformers", "torch", "device", "threads")}
    rows = [("runs", name, ", ".join(values)) for name, values in found.items()]
    rows += [("this page", "Python", platform.python_version())]
    here = {distribution.name: distribution.version for distribution in metadata.distributions()}
    rows += [("this page", name, here[name]) for name in HERE if name in here]
    rows += [("this page", "system", platform.platform()), ("this page", "processor", processor())]
    return pd.DataFrame(rows, columns=["of", "what", "which"])


def main(*, verdict, tidy, signatures, figures, benchmarks, facts, outputs):
    made = reproduction.blocks(
        verdict=read_csv(verdict).astype(dict.fromkeys(TEXT, object)).fillna(dict.fromkeys(TEXT, "")),
        tidy=read_csv(tidy),
        facts=facts,
        figures=figures,
        jobs=reproduction.jobs_of(Path(benchmarks)),
        versions=versions(signatures),
    )
    write_text(outputs.page, document.html(made, f"Reproduction report: {facts['suite']}"))
    write_text(outputs.markdown, document.markdown(made, Path(outputs.markdown).parent))


if __name__ == "__main__":
    start(snakemake.log[0], "reproduction report")
    main(
        verdict=snakemake.input.verdict,
        tidy=snakemake.input.tidy,
        signatures=snakemake.input.signatures,
        figures=snakemake.input.figures,
        benchmarks=snakemake.params.benchmarks,
        facts=snakemake.params.facts,
        outputs=snakemake.output,
    )
