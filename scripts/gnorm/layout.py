"""Every path under results/ and figures/, once.

A path is a template with wildcards: `{suite}`, `{model}`, `{strategy}`, ... Rules use templates as they are, `fill`
puts values in, `within` finds the same file in any folder of results, `pattern` recognizes its name. Rules, `Results`,
the names that a suite may not use and docs/results.md all come from here. Imports nothing of the project.
"""

from __future__ import annotations

import re
from pathlib import Path

HELD: dict[str, str] = {}  # what a person finds in a file, by its template


def _holds(template: str, what: str) -> str:
    HELD[template] = what
    return template


RUN = "run{run}"  # the folder, in whatever folder of results it has files, of a run with a model of its own
RESULTS, FIGURES = "results/{suite}", "figures/{suite}"
PUBLISHED, BENCH = "published", "bench"  # stand where a suite's name stands

# Data
ARCHIVE = "results/{suite}/packages/{archive}"
DOWNLOADED_DATASET = "results/{suite}/{model}/download/dataset.parquet"
DOWNLOADED_MODEL = "results/{suite}/{model}/download/model"
DOWNLOADS = {"dataset": DOWNLOADED_DATASET, "checkpoint": DOWNLOADED_MODEL}
DATASET = "results/{suite}/{model}/dataset"
ROWS = _holds("results/{suite}/{model}/dataset/rows.parquet", "row id, text, text pair, label")
SPLITS = _holds(
    "results/{suite}/{model}/dataset/splits.json",
    "index lists: training, calibration, entropy, evaluation rows; classes",
)
SUMMARY = _holds("results/{suite}/{model}/dataset/summary.md", "what to look at first: counts, lengths, examples")
SUMMARY_PAGE = "results/{suite}/{model}/dataset/summary.html"
TOKENIZER = "results/{suite}/{model}/dataset/tokenizer"
BASELINES = _holds("results/{suite}/{model}/baselines.json", "majority class and bag of words, of models trained here")

# Models
CHECKPOINT = _holds(
    "results/{suite}/{model}/checkpoint",
    "the unpruned model and its tokenizer, as `save_pretrained` writes, and `SHA256SUMS`: digests, which every job "
    "that loads it compares",
)
HEADS = _holds("results/{suite}/{model}/heads.json", "layers, heads, their width, which layers share them")

# Entropy
ENTROPY_SHARD = _holds(
    "results/{suite}/{model}/entropy/shards/{first}-{last}.pt",
    "row ids, entropy of each row (rows x layers x heads), sums of variants A, B and C, counts of what is not finite",
)
ENTROPY = _holds("results/{suite}/{model}/entropy/entropy.pt", "mean over all shards, float64, and its row count")
DIAGNOSTICS = _holds("results/{suite}/{model}/entropy/diagnostics.json", "the paper's Appendix C in numbers")

# Pruning
TRAJECTORY = _holds(
    "results/{suite}/{model}/trajectories/{strategy}/{first}-{last}.csv",
    "runs `first` to `last`, a row a step: slot pruned, its score, accuracy, heads pruned and left, parameters, "
    "seconds; step 0 is the unpruned model",
)
SCORES = _holds(
    "results/{suite}/{model}/trajectories/{strategy}/{first}-{last}.scores.pt", "scores of every rescoring, by run"
)
OUTCOMES = _holds(
    "results/{suite}/{model}/trajectories/{strategy}/{first}-{last}.rows.npz",
    "what was answered on every evaluation row at every step: see [Outcomes row by row](#outcomes-row-by-row)",
)
SIGNATURE = "results/{suite}/{model}/trajectories/{strategy}/{first}-{last}.json"  # what the runs belong to
TRIALS_SIGNATURE = "results/{suite}/{model}/{strategy}/shards/{first}-{last}.json"
TRIALS_PART = "results/{suite}/{model}/{strategy}/shards/{first}-{last}.csv"
TRIALS_OUTCOMES = _holds(
    "results/{suite}/{model}/{strategy}/shards/{first}-{last}.rows.npz",
    "the same of random trials `first` to `last`, at every level",
)
TRIALS = _holds(
    "results/{suite}/{model}/{strategy}/trials.csv", "random trials: heads pruned, accuracy, the order drawn"
)
GRADIENT_CHANGE = _holds(
    "results/{suite}/{model}/gradient_change.npz", "what pruning a head does to a layer's gradients"
)
CONTROLS = _holds("results/{suite}/{model}/controls.json", "the model without heads, without neurons, without both")
SPEED = _holds(
    "results/{suite}/{model}/speed.csv", "tokens a second and written text as heads go, where that is measured"
)
# Of runs `first` to `last`: curves, scores, costs, and what they belong to
CRITERIA_PART = "results/{suite}/{model}/criteria/shards/{first}-{last}.csv"
CRITERIA_PART_SCORES = "results/{suite}/{model}/criteria/shards/{first}-{last}.scores.csv"
CRITERIA_PART_COSTS = "results/{suite}/{model}/criteria/shards/{first}-{last}.costs.csv"
CRITERIA_OUTCOMES = _holds(
    "results/{suite}/{model}/criteria/shards/{first}-{last}.rows.npz",
    "the same of every criterion compared, in runs `first` to `last`",
)
CRITERIA_SIGNATURE = "results/{suite}/{model}/criteria/shards/{first}-{last}.json"
CRITERIA_SCORES = _holds(
    "results/{suite}/{model}/criteria/scores.csv",
    "scores and ranks of the unpruned model's heads by every criterion compared",
)
CRITERIA_CURVES = _holds("results/{suite}/{model}/criteria/curves.csv", "accuracy as heads go in the order of each")
CRITERIA_COSTS = _holds("results/{suite}/{model}/criteria/costs.csv", "forward and backward passes that each takes")

# Under the names of the authors' repository
PUBLISHED_ACCURACIES, PUBLISHED_ENTROPIES = "experiments_results", "AE_calculation_results"
PUBLISHED_CURVE = _holds(
    "results/{suite}/experiments_results/pruned_heads_accuracy({model})basedon{published}.csv", "run 0 of a strategy"
)
ALL_GROUPS = "concated"  # as the authors spell it
PUBLISHED_TRIALS = _holds(
    "results/{suite}/experiments_results/{model}randompruned_heads_data_{trials}x{levels}_{group}.xlsx",
    "random trials, a column each; `1group`, `2group`, ... or `concated` for all",
)
PUBLISHED_SHARD = _holds(
    "results/{suite}/AE_calculation_results/{model}{first}_{last}AE.pt", "mean entropies of a shard, float32"
)
PUBLISHED_ENTROPY = _holds(
    "results/{suite}/AE_calculation_results/{model}_{total}AE.pt", "mean entropies of all rows, float32"
)

# What people take home
SOLUTION = _holds("results/{suite}/solutions/{model}/solution.json", "where to stop, and what is left there")
MASK = _holds("results/{suite}/solutions/{model}/mask.csv", "heads as rows of zeros (pruned) and ones, a row a layer")
PARAMETERS = _holds("results/{suite}/solutions/{model}/parameters.csv", "parameters of every module, before and after")
NEURON_MASK = _holds("results/{suite}/solutions/{model}/{strategy}.mask.csv", "the same for strategies of neurons")
PRUNED = _holds("results/{suite}/solutions/{model}/checkpoint", "the pruned model, its tokenizer and a card")
DENSE = _holds(
    "results/{suite}/solutions/{model}/dense",
    "the same in unpruned shapes, with zeros for what is gone: for those without this package",
)
LATENCY = _holds(
    "results/{suite}/solutions/{model}/latency.json", "milliseconds of a batch on this CPU, before and after"
)
TIDY = _holds(
    "results/{suite}/tidy.csv", "every step of every trajectory and every level of every random trial, a row each"
)
TABLE = _holds("results/{suite}/tables/{table}.{kind}", "every table as CSV, Markdown, LaTeX and a page")
WORKBOOK = _holds("results/{suite}/all.xlsx", "all tables and the tidy one, a sheet each")
FIGURE = _holds("figures/{suite}/{figure}.{kind}", "every figure as PNG and PDF")
PREVIEW = "figures/{suite}/Preview.{kind}"  # of the runs that are finished, by `snakemake preview`
VERDICT = _holds("results/{suite}/verdict.{kind}", "which claims hold, and on what evidence: CSV, Markdown and a page")
REPRODUCTION = _holds(
    "results/{suite}/reproduction.{kind}",
    "the page to read first, as HTML and Markdown: scope, method, every claim with its figure, what is undecided, cost",
)
PAPER_PARAMETERS = _holds(
    "results/{suite}/paper_parameters.csv", "parameters of the paper's models, counted without weights"
)
REPORT = _holds("results/{suite}/report.html", "all figures, tables and the verdict in one page that needs no network")
CONFIGURATION = _holds("results/{suite}/config.yaml", "the configuration that the report was made with")

# The authors' files, looked at
PUBLISHED_CHECK = _holds(
    "results/published/entropy.csv", "the authors' entropy shards, joined, beside their merged files"
)
PUBLISHED_RANKS = _holds("results/published/entropy_ranks.csv", "heads ranked by them")

# The benchmark
BENCH_SHAPE = "results/bench/shapes/{shape}.csv"
BENCH_PART = "results/bench/{part}.csv"  # growth, trajectory, reuse, exactness
BENCH_TABLE = "results/bench/bench.{kind}"
BENCH_FIGURE = "figures/bench/Benchmark.{kind}"

CHECK_GPU = "results/check-gpu"  # the page about a card, and what it is made of

# How jobs went, and how far they are
LOG = "results/{suite}/logs/{rule}/{job}.log"
BENCHMARKS = "results/{suite}/benchmarks"
BENCHMARK = "results/{suite}/benchmarks/{rule}/{job}.tsv"
STATES = "results/{suite}/state"
STATE = "results/{suite}/state/{job}.pt"
TOKENS = "results/{suite}/state/{model}.tokens.json"  # the batch size that a probe found on a GPU

RUNNING = "results/{suite}/running.json"  # which run of the workflow writes here

# What tables, figures and the verdict may need of a suite's results, by the names in their NEEDS.
NEEDS = {
    "tidy": (TIDY,),
    "heads": (HEADS,),
    "baselines": (BASELINES,),
    "solutions": (SOLUTION, MASK, PARAMETERS),
    "controls": (CONTROLS,),
    "gradients": (GRADIENT_CHANGE,),
    "entropy": (DIAGNOSTICS,),
    "criteria": (CRITERIA_SCORES, CRITERIA_CURVES, CRITERIA_COSTS),
    "speeds": (SPEED,),
    "splits": (SPLITS,),
}


def fill(template: str, **values: object) -> str:
    """The template with these wildcards filled in; the others stay."""
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", str(value))
    return template


def log(rule: str, job: str = "", **values: object) -> str:
    """The log of a rule's jobs, told apart by the wildcards in `job`."""
    return fill(LOG.replace("/{job}", f"/{job}" if job else ""), rule=rule, **values)


def benchmark(rule: str, job: str) -> str:
    """What a rule's jobs took, told apart by the wildcards in `job`."""
    return fill(BENCHMARK, rule=rule, job=job)


def within(folder: str | Path, template: str, **values: object) -> Path:
    """A suite's file, in whatever folder its results are."""
    return Path(folder, fill(template.removeprefix(f"{RESULTS}/"), **values))


def pattern(template: str, **wildcards: str) -> re.Pattern[str]:
    """An expression that matches the file's name, with a group for each wildcard in it."""
    name = re.escape(template.rpartition("/")[2])
    for wildcard, expression in wildcards.items():
        name = name.replace(re.escape(f"{{{wildcard}}}"), f"(?P<{wildcard}>{expression})", 1)
    return re.compile(name)


def own(template: str) -> str:
    """A file that each run with a model of its own has; the wildcard `own` is its folder there, see `folder_of`."""
    return re.sub(r"^results/\{suite\}/[^/]+", r"\g<0>{own}", template)


def folder_of(run: int) -> str:
    """The wildcard `own` of a run: `/run2` or, of run 0, whose files are the model's own, nothing."""
    return f"/{fill(RUN, run=run)}" if run else ""


def run_of(own: str) -> int:
    """The run whose wildcard `own` this is."""
    found = pattern(RUN, run=r"\d+").fullmatch(own.removeprefix("/"))
    return int(found["run"]) if found else 0


def of_run(template: str, run: int) -> str:
    """A file of a run that has a model of its own; run 0 stands for the model itself."""
    return fill(own(template), own=folder_of(run))


def _beside(wildcard: str) -> set[str]:
    """Names that stand where a wildcard stands in another template, in lower case: some file systems ignore it."""
    templates = [value for value in globals().values() if isinstance(value, str) and value.startswith(RESULTS)]
    before = {t.partition(f"/{wildcard}/")[0] for t in templates if f"/{wildcard}/" in t}
    after = (t[len(start) + 1 :].split("/")[0] for start in before for t in templates if t.startswith(f"{start}/"))
    return {name.lower() for name in after if "{" not in name}


def is_model_name(name: str) -> bool:
    """Whether a model may have this name: its folder is its own."""
    return name.lower() not in _beside("{model}")


def is_strategy_name(name: str) -> bool:
    """Whether a random strategy may have this name: its trials lie beside what a model has."""
    return name.lower() not in _beside("{strategy}") and not pattern(RUN, run=r"\d+").fullmatch(name.lower())


def table() -> str:
    """Markdown: what a person finds where."""
    return "\n".join(["| file | holds |", "|---|---|", *(f"| `{path}` | {what} |" for path, what in HELD.items())])


if __name__ == "__main__":
    print(table())
