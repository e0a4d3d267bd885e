"""Everything the rules look up: settings, names, and the code a rule depends on."""

import os
import re
import sys
from functools import cache, partial
from pathlib import Path

# For every job, and read when a library of the hub is first imported. Downloads lift it (gnorm.data.sources.hub).
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from gnorm.benchmarks import shapes
from gnorm.data.origins import Origin
from gnorm.errors import UserError
from gnorm.pages import summary
from gnorm.planning import advice, consistency, cost, estimate, suite
from gnorm import families, hardware, imports, layout, resume, running, scores
from gnorm.settings import suites as settings
from snakemake.logging import logger

try:
    settings.check_files(workflow.configfiles)
    SETTINGS = settings.load(config, ROOT)
    consistency.check(SETTINGS)
    SUITE = suite.Suite(SETTINGS)
except UserError as error:
    sys.exit(f"Error in the configuration: {error}")

MODELS = SETTINGS["models"]
JOBS = SETTINGS["jobs"]
COSTS = cost.Costs(SETTINGS)
FAILURES = advice.Failures(ROOT / "profiles")
# Keys of the configuration that belong to the machine: no result depends on them.
MACHINE = ("device_speed", "container")
BENCH = {
    "shapes": list(shapes.SHAPES),
    "repeats": 3,
    "evaluated": 256,
}
ORIGINS = {
    (section, model): Origin(section, MODELS[model][section], SUITE.fill(path, model=model))
    for section, path in layout.DOWNLOADS.items()
    for model in MODELS
}
# Archives that something is unpacked from, by the names they get here; models may share one.
ARCHIVES = {name: what for origin in ORIGINS.values() for name, what in origin.archives.items()}
FETCH_RETRIES = max(
    0 if SETTINGS.get(origin.mirror) else origin.retries for origin in ORIGINS.values()
)


@cache  # asked for every job
def code(script, *modules, model=None, of=()):
    """The modules a script imports, as inputs, plus those it loads by name; records of families (`of`) if it asks.

    Snakemake watches the script alone; without these, editing a module would rerun nothing.
    """
    named = [suite.source(name) for name in modules]
    files = {*imports.closure(ROOT / "scripts" / f"{script}.py", *named), *named}
    if suite.source("families.__init__") in files:
        # A model that is trained here has its family in the suite; any other says it in its files.
        family = MODELS[model]["checkpoint"].get("family") if model else None
        names = of or (family and [family]) or families.names()
        records = [suite.source(families.module(name)) for name in names]
        files |= {*imports.closure(*records), *records}
    return sorted({os.path.relpath(path) for path in files})


def code_for_model(script):
    """The same for a job with a model, as an input."""
    return lambda wildcards: code(script, model=wildcards.model)


def dataset_code(wildcards):
    """The source of the rows, and what that loads."""
    return code("make_dataset", *ORIGINS["dataset", wildcards.model].read_by, model=wildcards.model)


def checkpoint_code(wildcards):
    """A checkpoint from outside may be of a family whose heads have to be searched for."""
    outside = "path" in ORIGINS["checkpoint", wildcards.model].at_hand
    return code("make_checkpoint", *(["models.search"] if outside else []), model=wildcards.model)


def fetch_code(script, section):
    """The code of a download, with the source that it loads by name."""
    return lambda wildcards: code(script, *ORIGINS[section, wildcards.model].fetched_by)


def score_code(wildcards):
    """The criterion that a strategy ranks by; of a hybrid its members too."""
    strategy = SETTINGS["strategies"][wildcards.strategy]
    modules = scores.modules(strategy["score"], strategy["settings"])
    return code("prune_heads", *modules, model=wildcards.model)


def compared_code(wildcards):
    """All criteria that are compared."""
    modules = (m for compared in SETTINGS["compare"].items() for m in scores.modules(*compared))
    return code("compare_criteria", *modules, model=wildcards.model)


def caption(module):
    return imports.docstring(suite.source(module))


def setting(*keys):
    """A model's entry of the suite, as a parameter."""

    def look_up(wildcards):
        value = MODELS[wildcards.model]
        for key in keys:
            value = value.get(key) if value is not None else None
        return value

    return look_up


def origin(section, what):
    """What a job needs to know of where a model's dataset or checkpoint comes from, as an input or parameter."""
    return lambda wildcards: getattr(ORIGINS[section, wildcards.model], what)


def mirror(section):
    """A folder to look into instead of the network, as a parameter."""
    return lambda wildcards: SETTINGS.get(ORIGINS[section, wildcards.model].mirror)


def archive(section):
    """The archive that a model's dataset or checkpoint lies in, if it does."""
    path = partial(SUITE.fill, layout.ARCHIVE)
    return lambda wildcards: next(
        (path(archive=name) for name in ORIGINS[section, wildcards.model].archives), []
    )


def memory(wildcards, attempt):
    """What a job with a model asks for; a job that was stopped asks for more."""
    return attempt * COSTS.memory_mb(wildcards.model)


def time_limit(rule):
    """Minutes that a job asks for; a job that was stopped asks for more."""
    return lambda wildcards, attempt: attempt * COSTS.minutes(rule, dict(wildcards.items()))


def from_published(wildcards):
    """What the target `published` makes; it needs results to look at."""
    try:
        return SUITE.from_published()
    except UserError as error:
        sys.exit(f"Error in the configuration: {error}")


def watch(workflow):
    """Take the results, warn of a GPU that is not used, then say how far a run is and how long the rest will take."""
    # Jobs on other machines or in other environments say it in their own logs.
    here = not workflow.nodes and not workflow.deployment_settings.deployment_method
    if here and (unused := hardware.unused_card()):
        logger.warning(unused)
    try:
        for name in running.suites_of(
            path for job in workflow.dag.needrun_jobs() for path in job.output
        ):
            running.take(name)
    except UserError as error:
        sys.exit(f"Error: {error}")
    logger.addHandler(FAILURES)
    estimate.watch(workflow, COSTS, logger)


def summarize(workflow):
    """Remove what finished jobs might have gone on from; show, as the last lines, what came out of the targets."""
    if running.is_ours(SUITE.name):
        resume.remove_finished(SUITE.fill(layout.STATES))
    made = {str(path) for job in workflow.dag.jobs for path in job.output}
    advice.say_last(summary.lines([SUITE.name, layout.PUBLISHED], made), sys.stdout)


wildcard_constraints:
    suite="|".join(map(re.escape, [SUITE.name, *([layout.PUBLISHED] if SUITE.published else [])])),
    model="|".join(map(re.escape, MODELS)),
    own=rf"(?:{'|'.join(sorted({own for m in MODELS for own in SUITE.owns(m)}))})",
    strategy="|".join(map(re.escape, SETTINGS["strategies"])),
    figure="|".join({*SUITE.figures, *suite.without_a_run("figures")}),
    table="|".join({*SUITE.tables, *suite.without_a_run("tables")}),
    published="|".join(map(re.escape, SUITE.published_names)),
    archive="|".join(map(re.escape, ARCHIVES)) or "none",
    shape="|".join(BENCH["shapes"]),
    group=rf"\d+group|{layout.ALL_GROUPS}",
    trials=r"\d+",
    levels=r"\d+",
    first=r"\d+",
    last=r"\d+",
    total=r"\d+",
