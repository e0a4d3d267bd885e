"""Everything the rules look up: settings, names, and the code a rule depends on."""

import os
import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(workflow.basedir)
sys.path.insert(0, str(ROOT / "scripts"))
# For every job, and read when a library of the hub is first imported. Downloads lift it (gnorm.data.hub).
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from gnorm.errors import UserError
from gnorm.planning import advice, cost, estimate
from gnorm import hardware, imports, resume, scores
from gnorm.published import interchange, paper
from gnorm.settings import suites as settings
from snakemake.logging import logger

try:
    SETTINGS = settings.load(config, ROOT)
    CLONE = interchange.scan(SETTINGS["published"]) if SETTINGS["published"] else None
    if CLONE is None and "published" in sys.argv:
        raise UserError(
            "published: say where the results are, with --config published=PATH "
            "(a clone of the authors' repository, or results/SUITE)"
        )
except UserError as error:
    sys.exit(f"Error in the configuration: {error}")

SUITE = SETTINGS["suite"]
MODELS = SETTINGS["models"]
JOBS = SETTINGS["jobs"]
RUNS = range(SETTINGS["runs"])
RANKED = [
    name
    for name, entry in SETTINGS["strategies"].items()
    if not scores.describe(entry["score"]).drawn
]
RANDOM = [
    name for name, entry in SETTINGS["strategies"].items() if scores.describe(entry["score"]).drawn
]
TASKS = {name: entry["task"] for name, entry in MODELS.items()}
CLASSIFIERS = [name for name in MODELS if TASKS[name] == "classification"]
TRAINED = [name for name in CLASSIFIERS if MODELS[name]["checkpoint"]["source"] in settings.TRAINED]
# Models whose speed, or what they write, is measured.
TIMED = [name for name, entry in MODELS.items() if {*entry["metrics"]} & {*settings.AT_LEVELS}]
UNITS = {name: entry["unit"] for name, entry in SETTINGS["strategies"].items()}
# The authors' files are about heads; their names have room for one random strategy.
OF_HEADS = [name for name in RANKED if UNITS[name] == "heads"]
OF_NEURONS = [name for name in RANKED if UNITS[name] == "neurons"]
PUBLISHED = {interchange.strategy_name(name): name for name in OF_HEADS}
WORKBOOKS = next((name for name in RANDOM if UNITS[name] == "heads"), None)
# The token budget follows from it where the suite leaves that to memory; elsewhere it changes nothing.
MEMORY_MB = (
    JOBS["memory_mb"] if JOBS["batch_tokens"] == "auto" and JOBS["memory_mb"] != "auto" else None
)
# What cannot be had of a model that gives no attention weights: said when its checkpoint is made.
ATTENTION = ", ".join(settings.of_attention(SETTINGS))
# Whether anything ranks heads by entropy.
ENTROPY = bool(settings.scores_of(SETTINGS, "entropy"))
# Of the configuration what belongs to the machine: no result depends on it.
MACHINE = ("device_speed", "container")
BENCH = {
    "shapes": ["BERT", "ALBERT", "RoBERTa", "XLM-RoBERTa", "MiniLM"],
    "repeats": 3,
    "evaluated": 256,
}
TITLES = {name: entry.get("title", name) for name, entry in MODELS.items()}


# What can be made of the published results alone, whatever the configuration makes of the suite's.
OF_PUBLISHED = {
    "figures": ["PruningResults", "RandomPruning"],
    "tables": ["headline", "areas", "stops", "random"],
}


def source(name):
    """A module of the package as a file: `scores.gnorm` is scripts/gnorm/scores/gnorm.py."""
    return imports.PACKAGE.joinpath(*name.split(".")).with_suffix(".py")


@cache  # asked for every job
def code(script, *modules):
    """The modules a script imports, as inputs, plus those it loads by name.

    Snakemake watches the script alone; without these, editing a module would rerun nothing.
    """
    named = [source(name) for name in modules]
    files = [*imports.closure(ROOT / "scripts" / f"{script}.py", *named), *named]
    return sorted({os.path.relpath(path) for path in files})


def setting(*keys):
    """A model's entry of the suite, as a parameter."""

    def look_up(wildcards):
        value = MODELS[wildcards.model]
        for key in keys:
            value = value.get(key) if value is not None else None
        return value

    return look_up


def dataset_code(wildcards):
    dataset = MODELS[wildcards.model]["dataset"]
    corpora = [f"data.corpora.{dataset['corpus']}"] if dataset["source"] == "generated" else []
    return code("make_dataset", *corpora)


def checkpoint_code(wildcards):
    """A checkpoint from outside may be of a family whose heads have to be searched for."""
    outside = MODELS[wildcards.model]["checkpoint"]["source"] != "train"
    return code("make_checkpoint", *(["models.search"] if outside else []))


# Where a model's dataset and checkpoint are once fetched, and what they then are a source of.
FETCHED = {
    "dataset": ("results/{suite}/{model}/download/dataset.parquet", "file"),
    "checkpoint": ("results/{suite}/{model}/download/model", "local"),
}
# What an entry says of where it is fetched from; settled once it is at hand.
WHENCE = {
    "hub": ["id", "revision", "config", "split"],
    "package": [
        "package",
        "version",
        "kind",
        "sha256",
        "archive",
        "member",
        "columns",
        "separator",
    ],
}


def origin(section, model):
    """A model's dataset or checkpoint entry; of one to be fine-tuned, what it starts from."""
    entry = MODELS[model][section]
    return entry.get("from", entry)


def origin_at_hand(section, model):
    """The same entry, with the local path of a download in place of the hub or package it comes from."""
    entry = origin(section, model)
    if entry["source"] not in WHENCE:
        return entry
    path, source = FETCHED[section]
    kept = {key: entry[key] for key in entry if key not in WHENCE[entry["source"]]}
    return kept | {"source": source, "path": path.format(suite=SUITE, model=model)}


def at_hand(section):
    """A model's dataset or checkpoint entry, as a parameter, with all that is fetched in its place."""

    def look_up(wildcards):
        entry = MODELS[wildcards.model][section]
        there = origin_at_hand(section, wildcards.model)
        return entry | {"from": there} if "from" in entry else there

    return look_up


def whence(section):
    """Where a model's dataset or checkpoint is fetched from, as a parameter."""

    def look_up(wildcards):
        entry = origin(section, wildcards.model)
        wanted = WHENCE[entry["source"]]
        return {key: value for key, value in entry.items() if key in ("source", *wanted)}

    return look_up


# A network may come back; a file missing from a mirror or a package does not.
FROM_HUB = any(origin(s, m)["source"] == "hub" for m in MODELS for s in FETCHED)
FETCH_RETRIES = 3 if FROM_HUB and not SETTINGS["hub_mirror"] else 0


def archive_name(entry):
    return f"{entry['package']}-{entry['version']}.{entry['kind']}"


# Archives of packages by the names they get here; models may share one.
ARCHIVES = {
    archive_name(part): {key: part[key] for key in ("package", "version", "kind", "sha256")}
    for entry in MODELS.values()
    for part in settings.packages(entry)
}


def archive(section):
    """The archive that a model's dataset or checkpoint lies in, if it does."""

    def look_up(wildcards):
        entry = origin(section, wildcards.model)
        if entry["source"] != "package":
            return []
        return f"results/{SUITE}/packages/{archive_name(entry)}"

    return look_up


def outside(*sections):
    """Files that a suite entry takes from outside the workflow, or that are fetched; of a folder, every file in it."""

    def look_up(wildcards):
        found = []
        for section in sections:
            path = origin_at_hand(section, wildcards.model).get("path")
            if origin(section, wildcards.model)["source"] in WHENCE:
                found.append(path)
            elif path:
                inside = sorted(p for p in Path(path).rglob("*") if p.is_file())
                found += map(str, inside if Path(path).is_dir() else [path])
        return found

    return look_up


def shape(model):
    """A model's dimensions, as far as they are known by now."""
    folders = ["results/{suite}/{model}/checkpoint", FETCHED["checkpoint"][0]]
    return cost.shape(MODELS[model], [f.format(suite=SUITE, model=model) for f in folders])


COSTS = cost.Estimator(SETTINGS, cost.laws(ROOT), {model: shape(model) for model in MODELS})


def memory(wildcards, attempt):
    """What a job with a model asks for; a job that was stopped asks for more."""
    return attempt * COSTS.memory_mb(wildcards.model)


def time_limit(rule, runs=1):
    """Minutes that a job asks for; a job that was stopped asks for more."""

    def look_up(wildcards, input, attempt):
        values, shards = dict(wildcards.items()), bool(input.get("shards"))
        return attempt * cost.minutes(COSTS.seconds(rule, values, runs, shards))

    return look_up


def seconds_of(job):
    """What a job will take as far as is known by now; None before its model is there.

    A model that is fetched while Snakemake runs is not the one that was planned for.
    """
    model = job.wildcards_dict.get("model")
    if model:
        if not COSTS.shapes[model].known:
            COSTS.shapes[model] = shape(model)
        if not COSTS.shapes[model].known:
            return None
    runs = sum(str(path).endswith(".csv") for path in job.output)
    return COSTS.seconds(job.rule.name, job.wildcards_dict, runs, bool(job.input.get("shards")))


def watch(workflow):
    """Warn of a GPU that will not be used, then say on screen how far a run is and how long the rest will take."""
    on_cluster = workflow.nodes  # how many jobs at once
    # Jobs on other machines or in other environments say it in their own logs.
    here = not on_cluster and not workflow.deployment_settings.deployment_method
    if here and (unused := hardware.unused_card()):
        logger.warning(unused)
    jobs = [
        estimate.Job(
            id=job.jobid,
            kind=job.rule.name,
            model=job.wildcards_dict.get("model"),
            predicted=lambda job=job: seconds_of(job),
            cores=1 if on_cluster else job.threads,
        )
        for job in workflow.dag.needrun_jobs()
        if not job.is_norun
    ]
    estimate.watch(estimate.Plan(jobs, on_cluster or workflow.cores), logger)


def explain(logs):
    """What to change where a scheduler refused or stopped a job, as its profile says."""
    for line in advice.explain(logs, ROOT / "profiles"):
        print(line, file=sys.stderr)


def chunks(count, size):
    """(first, last) of consecutive parts of `size`, the last one shorter if need be."""
    return [(first, min(first + size, count) - 1) for first in range(0, count, size)]


def entropy_rows(model):
    rows = MODELS[model]["rows"]
    return rows["calibration"] if rows["entropy"] == "same" else rows["entropy"]


def shard_chunks(model):
    return chunks(entropy_rows(model), MODELS[model]["shard_rows"])


def shards(wildcards):
    return [
        f"results/{SUITE}/{wildcards.model}/entropy/shards/{first}-{last}.pt"
        for first, last in shard_chunks(wildcards.model)
    ]


def ranks_by_shards(strategy):
    """Entropy taken once is read from the shards, unless the strategy has settings of its own."""
    entry = SETTINGS["strategies"][strategy]
    shared = entry["settings"] == SETTINGS["scores"].get(entry["score"])
    return scores.describe(entry["score"]).stored and entry["rescore"] == "never" and shared


def shards_if_ranked_by(wildcards):
    return shards(wildcards) if ranks_by_shards(wildcards.strategy) else []


def shards_if_compared(wildcards):
    return shards(wildcards) if any(scores.describe(s).stored for s in SETTINGS["compare"]) else []


def score_modules(score, settings):
    """The module of a criterion; of a hybrid those of its members too."""
    return [f"scores.{name}" for name in (score, *settings.get("members", {}))]


def score_code(wildcards):
    strategy = SETTINGS["strategies"][wildcards.strategy]
    return code("prune_heads", *score_modules(strategy["score"], strategy["settings"]))


def compared_code():
    compared = SETTINGS["compare"].items()
    return code("compare_criteria", *(m for pair in compared for m in score_modules(*pair)))


def unit_of(wildcards):
    """What a strategy prunes, as a parameter."""
    strategy = SETTINGS["strategies"][wildcards.strategy]
    return {key: strategy[key] for key in ("unit", "group") if key in strategy}


def trials(model, strategy):
    """Random trials of one group."""
    return MODELS[model]["random"].get("trials", SETTINGS["strategies"][strategy]["trials"])


def all_trials(model, strategy):
    return trials(model, strategy) * MODELS[model]["random"]["groups"]


def trial_shards(wildcards):
    parts = chunks(all_trials(wildcards.model, wildcards.strategy), JOBS["trials_per_job"])
    return [
        f"results/{SUITE}/{wildcards.model}/{wildcards.strategy}/shards/{first}-{last}.csv"
        for first, last in parts
    ]


def random_workbooks(model):
    """Published names of a model's random workbooks: one a group, and the joined one if several."""
    levels, groups = MODELS[model]["random"]["levels"], MODELS[model]["random"]["groups"]
    size = trials(model, WORKBOOKS)
    names = [interchange.random_file(model, size, levels, k + 1) for k in range(groups)]
    if groups > 1:
        names.append(interchange.joined_random_file(model, size, levels))
    return [f"results/{SUITE}/experiments_results/{name}" for name in names]


def random_size(model):
    """Trials x levels, as in a published workbook's name."""
    return f"{trials(model, WORKBOOKS)}x{MODELS[model]['random']['levels']}"


def trial_range(wildcards):
    """First and last trial of a published workbook."""
    size = trials(wildcards.model, WORKBOOKS)
    if wildcards.group == "concated":
        return 0, all_trials(wildcards.model, WORKBOOKS) - 1
    group = int(wildcards.group.removesuffix("group"))
    return (group - 1) * size, group * size - 1


def published_entropy(model):
    """Published names of a model's entropy shards, and of their mean."""
    prefix = f"results/{SUITE}/AE_calculation_results"
    parts = [f"{prefix}/{interchange.shard_file(model, *part)}" for part in shard_chunks(model)]
    return parts, f"{prefix}/{interchange.entropy_file(model, entropy_rows(model))}"


def step_metrics(wildcards):
    """What is measured at every step beside accuracy."""
    asked = MODELS[wildcards.model]["metrics"]
    return [name for name in asked if name not in ("accuracy", *settings.AT_LEVELS)]


def level_metrics(wildcards):
    """What is measured with speed."""
    return [name for name in MODELS[wildcards.model]["metrics"] if name in settings.AT_LEVELS]


def trajectory(model, strategy, run):
    return f"results/{SUITE}/{model}/trajectories/{strategy}/run{run}.csv"


def all_trajectories():
    """(file, model, strategy, run) of each."""
    return [(trajectory(m, s, r), m, s, r) for m in MODELS for s in RANKED for r in RUNS]


def all_trial_tables():
    """(file, model, strategy) of each."""
    return [(f"results/{SUITE}/{m}/{s}/trials.csv", m, s) for m in MODELS for s in RANDOM]


# What tables and figures may need of the results, by the names in their NEEDS.
NEEDS = {
    "tidy": [f"results/{SUITE}/tidy.csv"],
    "heads": [f"results/{SUITE}/{model}/heads.json" for model in MODELS],
    "baselines": [f"results/{SUITE}/{model}/baselines.json" for model in TRAINED],
    "solutions": [
        f"results/{SUITE}/solutions/{model}/{name}"
        for model in MODELS
        for name in ("solution.json", "mask.csv", "parameters.csv")
    ],
    "neurons": [
        path
        for path, _, strategy, *_ in all_trajectories() + all_trial_tables()
        if UNITS[strategy] == "neurons"
    ],
    "controls": [f"results/{SUITE}/{model}/controls.json" for model in MODELS],
    "gradients": [f"results/{SUITE}/{model}/gradient_change.npz" for model in MODELS],
    "entropy": [f"results/{SUITE}/{model}/entropy/diagnostics.json" for model in MODELS if ENTROPY],
    "criteria": [
        f"results/{SUITE}/{model}/criteria/{name}.csv"
        for model in MODELS
        for name in ("scores", "curves", "costs")
    ],
    "speeds": [f"results/{SUITE}/{model}/speed.csv" for model in TIMED],
}


# A table of something that no model of the suite has is left out, and so is a figure of what no strategy prunes.
TABLES = [
    name
    for name in SETTINGS["tables"]
    if all(NEEDS[need] for need in imports.constant(source(f"tables.{name}"), "NEEDS"))
]
FIGURES = [
    name
    for name in SETTINGS["figures"]["draw"]
    if imports.constant(source(f"figures.{name.lower()}"), "UNIT", "heads") in UNITS.values()
]


def needs(module, suite):
    if suite == "published":
        return ["results/published/tidy.csv"]
    return [path for need in imports.constant(source(module), "NEEDS") for path in NEEDS[need]]


def titles(wildcards):
    """Models as they are shown, of the suite or of the published results."""
    if wildcards.suite != "published":
        return TITLES
    return {m: paper.MODELS[m].title if m in paper.MODELS else m for m in CLONE.models}


def strategies_for(module, suite):
    """What a table or figure may know of the strategies, if it reads their results at all."""
    if "tidy" not in imports.constant(source(module), "NEEDS"):
        return {}
    if suite == "published":
        return {
            name: {"score": "random" if name == "random" else "published"}
            for name in CLONE.strategies
        }
    unit = imports.constant(source(module), "UNIT", "heads")
    return {
        name: {"score": entry["score"]}
        for name, entry in SETTINGS["strategies"].items()
        if entry["unit"] == unit
    }


def published_targets(wildcards):
    """Everything that can be had from the published files alone."""
    figures = expand(
        "figures/published/{figure}.{kind}", figure=OF_PUBLISHED["figures"], kind=["png", "pdf"]
    )
    tables = expand("results/published/tables/{table}.md", table=OF_PUBLISHED["tables"])
    return [*figures, *tables, "results/published/entropy.csv", "results/published/verdict.md"]


def published_curves():
    """(file, model, strategy) of each published curve."""
    return (
        [(path, m, s) for m, found in CLONE.curves.items() for s, path in found.items()]
        if CLONE
        else []
    )


def published_trials():
    """(files, model) of the published random trials."""
    return [(paths, model) for model, paths in CLONE.random.items()] if CLONE else []


def published_entropies():
    """(model, shards, files named by rows, an accuracy curve) of each model with published entropies."""
    if not CLONE:
        return []
    return [
        (
            m,
            CLONE.shards.get(m, []),
            CLONE.counted.get(m, []),
            next(iter(CLONE.curves[m].values()), None),
        )
        for m in CLONE.models
        if m in CLONE.shards or m in CLONE.counted
    ]


def published_entropy_files():
    return [file[-1] for _, *kinds, _ in published_entropies() for kind in kinds for file in kind]


def verdict_models(wildcards):
    """The suite's models; of the published results also those of the paper that are missing there."""
    if wildcards.suite != "published":
        return TITLES
    return {m: reported.title for m, reported in paper.MODELS.items()} | titles(wildcards)


def verdict_inputs(wildcards):
    """What the verdict on a run, or on the published results alone, is decided by."""
    found = ["results/published/tidy.csv", "results/published/entropy.csv"] if CLONE else []
    if wildcards.suite != "published":
        splits = [f"results/{SUITE}/{model}/dataset/splits.json" for model in MODELS]
        curves = [f"results/{SUITE}/{model}/criteria/curves.csv" for model in MODELS]
        found += [
            *NEEDS["tidy"],
            *NEEDS["entropy"],
            *NEEDS["gradients"],
            *NEEDS["speeds"],
            *curves,
            *splits,
        ]
    return found


def tokenizer_settings(wildcards):
    """The settings of a model's checkpoint that its tokenizer depends on."""
    entry = origin_at_hand("checkpoint", wildcards.model)
    return {
        key: entry[key]
        for key in ("source", "path", "family", "vocabulary", "length")
        if key in entry
    }


def caption(module):
    return imports.docstring(source(module))


wildcard_constraints:
    suite="|".join([re.escape(SUITE), *(["published"] if CLONE else [])]),
    model="|".join(map(re.escape, MODELS)),
    strategy="|".join(map(re.escape, SETTINGS["strategies"])),
    figure="|".join({*FIGURES, *OF_PUBLISHED["figures"]}),
    table="|".join({*TABLES, *OF_PUBLISHED["tables"]}),
    published="|".join(map(re.escape, PUBLISHED)),
    size="|".join({random_size(model) for model in MODELS}) if WORKBOOKS else "none",
    group=r"\d+group|concated",
    archive="|".join(map(re.escape, ARCHIVES)) or "none",
    first=r"\d+",
    last=r"\d+",
    shape="|".join(BENCH["shapes"]),
    total="|".join({str(entropy_rows(model)) for model in MODELS}),
