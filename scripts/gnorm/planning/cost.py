"""Seconds that a job will take: as finished jobs like it took, and by one plain law as long as there are none.

The law is START + tokens * layers * passes * flops / SPEED. Imports nothing heavy, because the Snakefile does.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from statistics import median

from gnorm import layout, scores
from gnorm.planning.shapes import Shape, evaluated, memory_mb, shape
from gnorm.pruning.rescoring import rounds

START, PLAIN = 3.0, 2.0  # seconds to start a job that imports torch and transformers, and one that does not
SPEED = 75e9  # flops a second of one thread; `device_speed` is relative to two
MOVED = 200.0  # flops that take as long as to write and read one number, which is most of a small model's time
PRUNED = 0.6  # mean time of a pass while heads go, or one that starts at a later layer, in that of a whole model's pass
TRAINED = 4  # passes that training makes of a row: forward, backward, and what dropout and the optimizer take
SPEED_ROUNDS, SMALL_PASS = 5, 200.0  # of measure_speed; tokens of a pass that takes as long as one of few
MARGIN, FLOOR = 2.0, 10  # a time limit is so many times the prediction, plus so many minutes

# Rules that load a model or its tokenizer, even where they compute next to nothing with it.
LOADING = (
    *("make_dataset", "make_checkpoint", "prune_heads", "gradient_change"),
    *("find_solution", "mask_neurons", "export_solution"),
)


class Costs:
    """Predictions for the jobs of a suite; `learning` says whether those that are finished are looked at."""

    def __init__(self, settings: dict, learning: bool = True):
        self.settings, self.learning = settings, learning
        self.shapes = {model: self._shape(model) for model in settings["models"]}
        self._ended = Ratios()  # of jobs of this run

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
        """A job's seconds: the law, corrected by the finished jobs most like it, of this run first."""
        return self.law(rule, wildcards) * nearest(rule, wildcards, self._ended, self._before)

    def minutes(self, rule: str, wildcards: Mapping[str, str]) -> int:
        """A time limit. Finished jobs can only raise it: they may have had other settings or a faster machine."""
        longest = self.law(rule, wildcards) * max(1.0, nearest(rule, wildcards, self._before))
        return FLOOR + -(-int(MARGIN * longest) // 60)

    def learn(self, rule: str, wildcards: Mapping[str, str], seconds: float) -> None:
        """Take in what a job of this run took."""
        self._ended.add(rule, wildcards, seconds, self.law(rule, wildcards))

    @cached_property
    def _before(self) -> Ratios:
        return self.ratios(self.finished()) if self.learning else Ratios()

    def ratios(self, finished: Iterable[tuple[str, dict[str, str], float]]) -> Ratios:
        ratios = Ratios()
        for rule, wildcards, seconds in finished:
            ratios.add(rule, wildcards, seconds, self.law(rule, wildcards))
        return ratios

    def finished(self) -> list[tuple[str, dict[str, str], float]]:
        """Rule, wildcards and seconds of jobs whose benchmark files are there, if the suite still has such jobs."""
        folder, jobs = Path(layout.fill(layout.BENCHMARKS, suite=self.settings["suite"])), []
        for path in sorted(folder.glob("*/**/*.tsv")):
            rule, model, *others = path.relative_to(folder).with_suffix("").parts
            wildcards = {"model": model}
            if others and (part := re.fullmatch(r"(\d+)-(\d+)", others[-1])):
                wildcards |= {"first": part[1], "last": part[2]}
                others.pop()
            if others:
                wildcards["strategy"] = others[0]
            try:
                with open(path, newline="", encoding="utf-8") as file:
                    seconds = float(next(csv.DictReader(file, delimiter="\t"))["s"])
            except (OSError, ValueError, KeyError, TypeError, StopIteration):
                continue  # cut short: as if it were not there
            if model in self.shapes and wildcards.get("strategy") in (None, *self.settings["strategies"]):
                jobs.append((rule, wildcards, seconds))
        return jobs

    def law(self, rule: str, wildcards: Mapping[str, str]) -> float:
        """A job's seconds from dimensions and rows alone."""
        rows = self._rows(rule, wildcards)
        if not rows:
            return START if rule in LOADING else PLAIN
        model, jobs, device = wildcards["model"], self.settings["jobs"], self.settings["device_speed"]
        flops = rows * self.settings["models"][model]["row_tokens"] * flops_per_token(self.shapes[model])
        return START + flops / SPEED / (jobs["threads"] if device is None else 2 * device)

    def _rows(self, rule: str, wildcards: Mapping[str, str]) -> float:
        """Rows that go forward through the whole model in a job; going backward too counts three times."""
        if "model" not in wildcards:
            return 0
        model = wildcards["model"]
        entry, of = self.settings["models"][model], self.shapes[model]
        first, last = (int(wildcards.get(name, 0)) for name in ("first", "last"))
        part = last - first + 1
        pruned, levels = PRUNED * evaluated(entry), entry["random"]["levels"] - 1
        if rule == "make_checkpoint":
            return TRAINED * entry["checkpoint"].get("epochs", 0) * entry["rows"]["train"]
        if rule == "entropy_shard":
            return part
        if rule == "random_pruning":
            return part * levels * pruned
        if rule == "measure_controls":
            return 4 * pruned
        if rule == "prune_heads":
            strategy = entry["strategies"][wildcards["strategy"]]
            slots, steps = steps_of(strategy, of, self.settings["stop"])
            taken = rounds(strategy["rescore"], steps)
            tested = pruned if of.tied else PRUNED * pruned  # the layers below a pruned head are kept
            return part * (taken * self._scored(strategy["score"], strategy["settings"], model, slots) + steps * tested)
        if rule == "compare_criteria":
            scored = sum(self._scored(score, own, model, of.slots) for score, own in entry["compare"].items())
            return self.settings["runs"] * (scored + len(entry["compare"]) * levels * pruned)
        if rule == "measure_speed":
            ranked = [s for s in self.settings["strategies"].values() if not scores.describe(s["score"]).drawn]
            writes = self.settings["generation"]["new_tokens"] if entry["task"] == "language_model" else 1
            passes = SPEED_ROUNDS * levels * sum(s["unit"] == "heads" for s in ranked) * (1 + writes)
            return passes * SMALL_PASS / entry["row_tokens"]
        return 0

    def _scored(self, score: str, settings: dict, model: str, slots: int) -> float:
        """Rows that go forward for one score, mean over a trajectory."""
        rows, described = self.settings["models"][model]["rows"], scores.describe(score)
        own = described.rows if rows.get(described.rows) != "same" else "calibration"
        forward, backward = described.passes(settings, slots, self.shapes[model].layers)
        return PRUNED * (forward + 2 * backward) * rows[own]


def flops_per_token(of: Shape) -> float:
    """Count the operations of one token's forward pass: matrix products, and moving the numbers between them."""
    matrices = 2 * (4 * of.width**2 + 2 * of.width * of.feed_forward)
    return of.layers * (matrices + MOVED * (8 * of.width + 2 * of.feed_forward))


def steps_of(strategy: dict, of: Shape, stop: dict) -> tuple[int, int]:
    """Count the slots that a strategy can prune and the most steps that its trajectory can take."""
    slots = of.slots
    if strategy["unit"] == "neurons":
        slots = of.feed_forward // strategy["group"] * (1 if of.tied else of.layers)
    limits = [slots]
    if stop.get("heads") is not None:
        limits.append(stop["heads"] / (of.layers if of.tied else 1))
    if stop.get("fraction") is not None:
        limits.append(stop["fraction"] * slots)
    return slots, int(min(limits))


class Ratios:
    """Seconds that jobs took, over those of the law, by rule, by rule and model, and by these and the strategy."""

    def __init__(self):
        self.of_kind: dict[tuple[str, ...], list[float]] = defaultdict(list)

    def add(self, rule: str, wildcards: Mapping[str, str], seconds: float, law: float) -> None:
        for kind in kinds(rule, wildcards):
            self.of_kind[kind].append(seconds / law)


def kinds(rule: str, wildcards: Mapping[str, str]) -> list[tuple[str, ...]]:
    """What a job is alike to others in, most alike first."""
    key = (rule, *(wildcards[name] for name in ("model", "strategy") if name in wildcards))
    return [key[:n] for n in range(len(key), 0, -1)]


def nearest(rule: str, wildcards: Mapping[str, str], *known: Ratios) -> float:
    """What the law was off for the jobs most alike, in the first of `known` that has such; 1 if there are none."""
    for kind in kinds(rule, wildcards):
        for ratios in known:
            if kind in ratios.of_kind:
                return median(ratios.of_kind[kind])
    return 1.0
