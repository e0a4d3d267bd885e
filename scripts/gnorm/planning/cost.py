"""Seconds that a job will take: as finished jobs like it took, and by one plain law as long as there are none.

The law is START + tokens * passes * flops / SPEED. Imports nothing heavy, because the Snakefile does.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from gnorm import layout, scores
from gnorm.planning.shapes import Shape, evaluated, memory_mb, shape_of, slots_of, steps_of
from gnorm.pruning.rescoring import rounds

START = 3.0  # seconds to start a job
SPEED = 75e9  # flops a second of one thread; `device_speed` is relative to two
MOVED = 200.0  # flops that take as long as to write and read one number, which is most of a small model's time
MARGIN, FLOOR = 2.0, 10  # a time limit is so many times the prediction, plus so many minutes
RECENT = 5  # finished jobs of a kind that count: older ones may have had another machine or other settings
UNRANKED = {"unit": "heads", "score": "random", "settings": {}, "rescore": "never"}  # what other jobs prune by
BENCHMARK = re.compile(  # those of runs with a model of their own lie in a folder each
    r"(?:run\d+/)?(?P<rule>[^/]+)/(?P<model>[^/]+)(/(?P<strategy>[^/]+))??(/(?P<first>\d+)-(?P<last>\d+))?\.tsv"
)


class Costs:
    """Predictions for the jobs of a suite; `learning` says whether those that are finished are looked at."""

    def __init__(self, settings: dict, learning: bool = True):
        self.settings = settings
        self.shapes = {model: shape_of(model, settings) for model in settings["models"]}
        self.finished = self._finished() if learning else []
        self._factors: dict[tuple[str, ...], list[float]] = defaultdict(list)  # what jobs took over their law, by kind
        for job in self.finished:
            self.learn(*job)

    def known(self, model: str | None) -> bool:
        """Whether a model's dimensions are there by now: it may be fetched while Snakemake runs."""
        if model and not self.shapes[model].known:
            self.shapes[model] = shape_of(model, self.settings)
        return not model or self.shapes[model].known

    def memory_mb(self, model: str) -> int:
        return memory_mb(model, self.shapes[model], self.settings)

    def seconds(self, rule: str, wildcards: Mapping[str, str], least: float = 0.0) -> float:
        """A job's seconds: its law, times what that was off for the finished jobs most alike, or `least`."""
        alike = (self._factors[kind] for kind in self._kinds(rule, wildcards) if kind in self._factors)
        return self.law(rule, wildcards) * max(least, median(next(alike, [1.0])[-RECENT:]))

    def minutes(self, rule: str, wildcards: Mapping[str, str]) -> int:
        """A time limit. Finished jobs can only raise it: they may have had other settings or a faster machine."""
        return FLOOR + -(-int(MARGIN * self.seconds(rule, wildcards, least=1.0)) // 60)

    def learn(self, rule: str, wildcards: Mapping[str, str], seconds: float) -> None:
        """Take in what a finished job took."""
        for kind in self._kinds(rule, wildcards):
            self._factors[kind].append(seconds / self.law(rule, wildcards))

    def _kinds(self, rule: str, wildcards: Mapping[str, str]) -> list[tuple[str, ...]]:
        """What a job is alike to others in, most alike first; those that do more than start have the machine too."""
        key = (rule, *(wildcards[name] for name in ("model", "strategy") if name in wildcards))
        return [key[:n] for n in range(len(key), 0, -1)] + ([()] if self.passes(rule, wildcards) else [])

    def _finished(self) -> list[tuple[str, dict[str, str], float]]:
        """Rule, wildcards and seconds of jobs that left a benchmark file, oldest first, if the suite still has such."""
        folder, jobs = Path(layout.fill(layout.BENCHMARKS, suite=self.settings["suite"])), []
        for path in folder.rglob("*.tsv"):
            named = BENCHMARK.fullmatch(path.relative_to(folder).as_posix())
            if named and named["model"] in self.shapes and named["strategy"] in (None, *self.settings["strategies"]):
                try:
                    seconds = float(path.read_text(encoding="utf-8").splitlines()[1].split()[0])
                    ended = path.stat().st_mtime
                except (OSError, ValueError, IndexError):
                    continue  # cut short: as if it were not there
                wildcards = {key: value for key, value in named.groupdict().items() if value and key != "rule"}
                jobs.append((ended, named["rule"], wildcards, seconds))
        return [job for _, *job in sorted(jobs, key=lambda job: job[0])]

    def law(self, rule: str, wildcards: Mapping[str, str]) -> float:
        """Seconds by rows and dimensions alone. Accuracy may end a trajectory: only finished ones tell where."""
        if not (passes := self.passes(rule, wildcards)):
            return START
        model, threads, device = wildcards["model"], self.settings["jobs"]["threads"], self.settings["device_speed"]
        flops = passes * self.settings["models"][model]["row_tokens"] * flops_per_token(self.shapes[model])
        return START + flops / SPEED / (threads if device is None else 2 * device)

    def passes(self, rule: str, wildcards: Mapping[str, str]) -> float:
        """Count how often a row goes forward through the whole model in a job; 0 if it does little else than start.

        A pass gets shorter as heads go, more so where outputs are kept from step to step. Backward counts as twice.
        """
        model = wildcards.get("model")
        if model not in self.shapes:
            return 0
        entry, of = self.settings["models"][model], self.shapes[model]
        strategy = UNRANKED | entry["strategies"].get(wildcards.get("strategy"), {})
        slots, steps = slots_of(strategy, of), steps_of(strategy, of, self.settings["stop"])
        evaluation, levels, rows = evaluated(entry), entry["random"]["levels"], entry["rows"]
        writes = self.settings["generation"]["new_tokens"] if entry["task"] == "language_model" else 0

        def scored(score: str, settings: dict) -> float:
            described = scores.describe(score)
            forward, backward = described.passes(settings, slots, of.layers)
            read = rows[described.rows]
            return (forward + 2 * backward) * (rows["calibration"] if read == "same" else read)

        scoring = rounds(strategy["rescore"], steps) * scored(strategy["score"], strategy["settings"])
        of_rule = {
            "make_checkpoint": 4 * rows["train"] * entry["checkpoint"].get("epochs", 0),
            "entropy_shard": 1,
            "prune_heads": 0.4 * (steps * evaluation + scoring),
            "random_pruning": 0.5 * levels * evaluation,
            "compare_criteria": 0.5 * sum(levels * evaluation + scored(*one) for one in entry["compare"].items()),
            "measure_controls": 3 * evaluation,
            "measure_speed": 250 * levels * (1 + writes),  # of one text, and again and again
        }
        return of_rule.get(rule, 0) * (1 + int(wildcards.get("last", 0)) - int(wildcards.get("first", 0)))


def flops_per_token(of: Shape) -> float:
    """Count the operations of one token's forward pass: matrix products, and moving the numbers between them."""
    matrices = 2 * (4 * of.width**2 + 2 * of.width * of.feed_forward)
    return of.layers * (matrices + MOVED * (8 * of.width + 2 * of.feed_forward))
