"""Everything the rules look up: settings, names, and the code a rule depends on."""

import os
import re
import sys
from functools import cache, partial
from pathlib import Path

ROOT = Path(workflow.basedir)
# Snakemake shows a script its own folder only behind what is installed, and rules nothing at all. In front of it, a
# `gnorm` that someone has installed is never taken for the one that is declared as input here.
sys.path.insert(0, str(ROOT / "scripts"))
search = (str(ROOT / "scripts"), *filter(None, os.getenv("PYTHONPATH", "").split(os.pathsep)))
os.environ.update(PYTHONPATH=os.pathsep.join(dict.fromkeys(search)))
# For every job, and read when a library of the hub is first imported. Downloads lift it (gnorm.data.sources.hub).
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from gnorm.data.origins import Origin
from gnorm.errors import UserError
from gnorm.planning import advice, cost, estimate, suite
from gnorm import families, hardware, imports, layout, resume, scores
from gnorm.settings import suites as settings
from snakemake.logging import logger

try:
    SETTINGS = settings.load(config, ROOT)
    SUITE = suite.Suite(SETTINGS)
except UserError as error:
    sys.exit(f"Error in the configuration: {error}")

MODELS = SETTINGS["models"]
JOBS = SETTINGS["jobs"]
COSTS = cost.Costs(SETTINGS)
# What tables and figures may know of the configuration.
SHOWN = {**SETTINGS["solutions"], "tasks": SUITE.tasks, "metrics": SETTINGS["metrics"]}
# Keys of the configuration that belong to the machine: no result depends on them.
MACHINE = ("device_speed", "container")
BENCH = {
    "shapes": ["BERT", "ALBERT", "RoBERTa", "XLM-RoBERTa", "MiniLM"],
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
def code(script, *modules, model=None):
    """The modules a script imports, as inputs, plus those it loads by name; records of families if it asks for any.

    Snakemake watches the script alone; without these, editing a module would rerun nothing.
    """
    named = [suite.source(name) for name in modules]
    files = {*imports.closure(ROOT / "scripts" / f"{script}.py", *named), *named}
    if suite.source("families.__init__") in files:
        # A model that is trained here has its family in the suite; any other says it in its files.
        family = MODELS[model]["checkpoint"].get("family") if model else None
        records = [
            suite.source(families.module(name)) for name in family and [family] or families.names()
        ]
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
    """Warn of a GPU that will not be used, then say on screen how far a run is and how long the rest will take."""
    # Jobs on other machines or in other environments say it in their own logs.
    here = not workflow.nodes and not workflow.deployment_settings.deployment_method
    if here and (unused := hardware.unused_card()):
        logger.warning(unused)
    estimate.watch(estimate.of_workflow(workflow, COSTS), logger)


def explain(logs):
    """What to change where a scheduler refused or stopped a job, as its profile says."""
    for line in advice.explain(logs, ROOT / "profiles"):
        print(line, file=sys.stderr)


wildcard_constraints:
    suite="|".join(map(re.escape, [SUITE.name, *([layout.PUBLISHED] if SUITE.published else [])])),
    model="|".join(map(re.escape, MODELS)),
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
