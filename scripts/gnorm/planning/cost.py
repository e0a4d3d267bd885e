"""Seconds that a job will take: as finished jobs like it took, and by one plain law as long as there are none.

The law is START + tokens * passes * flops / SPEED. The passes are those that `WORK` says of a rule, and those of the
scores that the job takes, as their criteria say. Imports nothing heavy, because the Snakefile does.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping
from math import prod
from pathlib import Path
from statistics import median

from gnorm import layout, scores
from gnorm.planning.shapes import Shape, evaluated, memory_mb, shape, slots_of, steps_of
from gnorm.pruning.rescoring import rounds

START = 3.0  # seconds to start a job
SPEED = 75e9  # flops a second of one thread; `device_speed` is relative to two
MOVED = 200.0  # flops that take as long as to write and read one number, which is most of a small model's time
MARGIN, FLOOR = 2.0, 10  # a time limit is so many times the prediction, plus so many minutes
RECENT = 5  # finished jobs of a kind that count: older ones may have had another machine or other settings
BENCHMARK = re.compile(  # those of runs with a model of their own lie in a folder each
    r"(?:run\d+/)?(?P<rule>[^/]+)/(?P<model>[^/]+)(/(?P<strategy>[^/]+))??(/(?P<first>\d+)-(?P<last>\d+))?\.tsv"
)

# Passes that jobs make of a row, times the numbers of the suite that are named. A pass gets shorter as heads go,
# more so where outputs are kept from step to step; training goes backward too; a speed is measured many times.
WORK = {
    "make_checkpoint": (4, "train", "epochs"),
    "entropy_shard": (1, "one"),
    "prune_heads": (0.4, "evaluation", "steps"),
    "random_pruning": (0.5, "evaluation", "levels"),
    "compare_criteria": (0.5, "evaluation", "levels"),
    "measure_controls": (3, "evaluation"),
    "measure_speed": (250, "texts"),
}


class Costs:
    """Predictions for the jobs of a suite; `learning` says whether those that are finished are looked at."""

    def __init__(self, settings: dict, learning: bool = True):
        self.settings, self.learning = settings, learning
        self.shapes = {model: self._shape(model) for model in settings["models"]}
        self._factors: dict[tuple[str, ...], list[float]] = defaultdict(list)  # what jobs took over their law, by kind
        for job in self.finished() if learning else ():
            self.learn(*job)

    def _shape(self, model: str) -> Shape:
        folders = (layout.CHECKPOINT, layout.DOWNLOADED_MODEL)
        paths = [layout.fill(folder, suite=self.settings["suite"], model=model) for folder in folders]
        return shape(self.settings["models"][model], paths)

    def known(self, model: str | None) -> bool:
        """Whether a model's dimensions are there by now: it may be fetched while Snakemake runs."""
        if model and not self.shapes[model].known:
            self.shapes[model] = self._shape(model)
        return not model or self.shapes[model].known

    def memory_mb(self, model: str) -> int:
        return memory_mb(model, self.shapes[model], self.settings)

    def seconds(self, rule: str, wildcards: Mapping[str, str]) -> float:
        """A job's seconds: the law, corrected by the finished jobs most like it."""
        return self.law(rule, wildcards) * self._factor(rule, wildcards)

    def minutes(self, rule: str, wildcards: Mapping[str, str]) -> int:
        """A time limit. Finished jobs can only raise it: they may have had other settings or a faster machine."""
        longest = self.law(rule, wildcards) * max(1.0, self._factor(rule, wildcards))
        return FLOOR + -(-int(MARGIN * longest) // 60)

    def learn(self, rule: str, wildcards: Mapping[str, str], seconds: float) -> None:
        """Take in what a finished job took."""
        for kind in kinds(rule, wildcards):
            self._factors[kind].append(seconds / self.law(rule, wildcards))

    def _factor(self, rule: str, wildcards: Mapping[str, str]) -> float:
        """What the law was off for the jobs most alike, or 1."""
        return next((median(self._factors[k][-RECENT:]) for k in kinds(rule, wildcards) if k in self._factors), 1.0)

    def finished(self) -> list[tuple[str, dict[str, str], float]]:
        """Rule, wildcards and seconds of jobs that left a benchmark file, oldest first, if the suite still has such."""
        folder, jobs = Path(layout.fill(layout.BENCHMARKS, suite=self.settings["suite"])), []
        for path in folder.glob("*/**/*.tsv"):
            try:
                wildcards = BENCHMARK.fullmatch(path.relative_to(folder).as_posix()).groupdict(default="")
                with open(path, newline="", encoding="utf-8") as file:
                    seconds = float(next(csv.DictReader(file, delimiter="\t"))["s"])
                ended = path.stat().st_mtime
            except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
                continue  # cut short, or no such file: as if it were not there
            if wildcards["model"] in self.shapes and wildcards["strategy"] in ("", *self.settings["strategies"]):
                jobs.append(
                    (ended, wildcards.pop("rule"), {key: value for key, value in wildcards.items() if value}, seconds)
                )
        return [job for _, *job in sorted(jobs, key=lambda job: job[0])]

    def law(self, rule: str, wildcards: Mapping[str, str]) -> float:
        """Seconds by rows and dimensions alone. Accuracy may end a trajectory: only finished ones tell where."""
        if rule not in WORK:
            return START
        model, jobs, device = wildcards["model"], self.settings["jobs"], self.settings["device_speed"]
        tokens = self._rows(rule, wildcards) * self.settings["models"][model]["row_tokens"]
        speed = SPEED * (jobs["threads"] if device is None else 2 * device)
        return START + tokens * flops_per_token(self.shapes[model]) / speed

    def _rows(self, rule: str, wildcards: Mapping[str, str]) -> float:
        """Rows that go forward through the whole model, for each criterion whose scores and order a job takes."""
        entry, of = self.settings["models"][wildcards["model"]], self.shapes[wildcards["model"]]
        strategy = entry["strategies"].get(wildcards.get("strategy"), {"unit": "heads"})
        slots, steps = slots_of(strategy, of), steps_of(strategy, of, self.settings["stop"])
        scored = []  # criteria, their settings, and how often
        if rule == "prune_heads":
            scored = [(strategy["score"], strategy["settings"], rounds(strategy["rescore"], steps))]
        elif rule == "compare_criteria":
            scored = [(score, own, 1) for score, own in entry["compare"].items()]
        numbers = entry["rows"] | {"evaluation": evaluated(entry), "one": 1, "steps": steps}
        numbers |= {"levels": entry["random"]["levels"], "epochs": entry["checkpoint"].get("epochs", 0)}
        writes = self.settings["generation"]["new_tokens"] if entry["task"] == "language_model" else 0
        numbers["texts"] = numbers["levels"] * (1 + writes)
        passes, *named = WORK[rule]
        count = prod(numbers[name] for name in named) * max(1, len(scored))
        for score, own, times in scored:
            described = scores.describe(score)
            read = described.rows if entry["rows"].get(described.rows) != "same" else "calibration"
            forward, backward = described.passes(own, slots, of.layers)
            count += times * (forward + 2 * backward) * entry["rows"][read]
        return passes * count * (1 + int(wildcards.get("last", 0)) - int(wildcards.get("first", 0)))


def flops_per_token(of: Shape) -> float:
    """Count the operations of one token's forward pass: matrix products, and moving the numbers between them."""
    matrices = 2 * (4 * of.width**2 + 2 * of.width * of.feed_forward)
    return of.layers * (matrices + MOVED * (8 * of.width + 2 * of.feed_forward))


def kinds(rule: str, wildcards: Mapping[str, str]) -> list[tuple[str, ...]]:
    """What a job is alike to others in, most alike first; jobs in `WORK` have the machine in common."""
    key = (rule, *(wildcards[name] for name in ("model", "strategy") if name in wildcards))
    return [key[:n] for n in range(len(key), 0, -1)] + ([()] if rule in WORK else [])
