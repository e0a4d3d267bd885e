"""One table as CSV, Markdown, LaTeX and a page."""

from gnorm import tables
from gnorm.logs import start
from gnorm.statistics.results import Results


def main(*, table, results, settings, caption, files):
    """Make it from `results`, the keywords of `Results.of_module`, and write it to `files`, the keywords of `write`."""
    module = tables.load(table)
    made = module.make(Results.of_module(module, **results), settings)
    tables.write(made, getattr(module, "DECIMALS", {}), caption, **files)


if __name__ == "__main__":
    start(snakemake.log[0], f"table {snakemake.wildcards.table}")
    main(
        table=snakemake.wildcards.table,
        results={**snakemake.params.results, "files": snakemake.input.needs},
        settings=snakemake.params.settings,
        caption=snakemake.params.caption,
        files=dict(snakemake.output.items()),
    )
