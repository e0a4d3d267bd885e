"""The benchmark's table, in CSV and Markdown, and its plot, from everything measured."""

from gnorm.benchmarks.plot import draw
from gnorm.benchmarks.summary import Measured, summary
from gnorm.figures.style import save
from gnorm.files import write_text
from gnorm.logs import log, start
from gnorm.pages.bench import markdown, number
from gnorm.statistics.columns import read_csv, write_csv


def main(*, shapes, parts, suite, settings, outputs):
    """`shapes` and `parts` are the measured files; `suite` has the models of the suite `paper`, for their rows."""
    measured = Measured(shapes)
    tables = {name: read_csv(path) for name, path in parts.items()}
    growth, steps = tables["growth"], tables["trajectory"]
    table = summary(
        measured, growth=growth, steps=steps, reuse=tables["reuse"], exactness=tables["exactness"], suite=suite
    )
    log.info("%d of %d targets reached", table["reached"].eq(True).sum(), table["reached"].notna().sum())
    for line in table[table["reached"].eq(False)].itertuples():
        value = number(line.value)
        log.warning("missed: %s, %s, %s is %s, wanted %s", line.section, line.shape, line.what, value, line.target)
    write_csv(table, outputs["csv"])
    machines = {
        "Shapes and growth": measured.table["machine"].iloc[0],
        "Trajectory and exactness": steps["machine"].iloc[0],
    }
    write_text(outputs["markdown"], markdown(table, machines, settings["repeats"], settings["evaluated"]))
    save(draw(table, steps, growth), outputs["png"], outputs["pdf"], settings["dpi"])


if __name__ == "__main__":
    start(snakemake.log[0], "bench")
    main(
        shapes=snakemake.input.shapes,
        parts={name: snakemake.input[name] for name in ("growth", "trajectory", "reuse", "exactness")},
        suite=snakemake.params.suite,
        settings=snakemake.params.settings,
        outputs=dict(snakemake.output.items()),
    )
