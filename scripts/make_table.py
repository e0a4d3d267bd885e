"""One table as CSV, Markdown and LaTeX."""

from gnorm import tables
from gnorm.logs import start
from gnorm.statistics.results import Results


def main(name, root, models, strategies, settings, caption, files, csv, markdown, latex, page):
    module = tables.load(name)
    results = Results(root, models, strategies, module.NEEDS, getattr(module, "UNIT", "heads"), files)
    made = module.make(results, settings)
    tables.write(made, module.DECIMALS, caption, csv, markdown, latex, page)


if __name__ == "__main__":
    start(snakemake.log[0], f"table {snakemake.wildcards.table}")
    main(
        snakemake.wildcards.table,
        f"results/{snakemake.wildcards.suite}",
        snakemake.params.models,
        snakemake.params.strategies,
        snakemake.params.settings,
        snakemake.params.caption,
        snakemake.input.needs,
        snakemake.output.csv,
        snakemake.output.markdown,
        snakemake.output.latex,
        snakemake.output.page,
    )
