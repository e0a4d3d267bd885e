"""One figure as PNG and PDF."""

from gnorm import figures
from gnorm.figures import style
from gnorm.logs import start
from gnorm.statistics.results import Results


def main(name, root, models, strategies, settings, dpi, files, png, pdf):
    module = figures.load(name)
    results = Results(root, models, strategies, module.NEEDS, getattr(module, "UNIT", "heads"), files)
    style.save(module.draw(results, settings), png, pdf, dpi)


if __name__ == "__main__":
    start(snakemake.log[0], f"figure {snakemake.wildcards.figure}")
    main(
        snakemake.wildcards.figure,
        f"results/{snakemake.wildcards.suite}",
        snakemake.params.models,
        snakemake.params.strategies,
        snakemake.params.settings,
        snakemake.params.dpi,
        snakemake.input.needs,
        snakemake.output.png,
        snakemake.output.pdf,
    )
