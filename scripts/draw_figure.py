"""One figure as PNG and PDF."""

from gnorm import figures
from gnorm.figures import style
from gnorm.logs import start
from gnorm.statistics.results import Results


def main(*, figure, results, settings, dpi, png, pdf):
    """Draw from `results`, the keywords of `Results.of_module`."""
    module = figures.load(figure)
    style.save(module.draw(Results.of_module(module, **results), settings), png, pdf, dpi)


if __name__ == "__main__":
    start(snakemake.log[0], f"figure {snakemake.wildcards.figure}")
    main(
        figure=snakemake.wildcards.figure,
        results={**snakemake.params.results, "files": snakemake.input.needs},
        settings=snakemake.params.settings,
        dpi=snakemake.params.dpi,
        png=snakemake.output.png,
        pdf=snakemake.output.pdf,
    )
