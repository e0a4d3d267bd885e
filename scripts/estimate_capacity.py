"""What a suite will cost, without running or downloading anything: jobs, hours, and how more GPUs shorten it.

python scripts/estimate_capacity.py --suite paper --speed 20 --config runs=1
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import heapq
import io
import logging
import os
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import yaml

from gnorm.errors import UserError
from gnorm.planning import cost
from gnorm.settings import suites as settings

ROOT = Path(__file__).resolve().parents[1]
SUBMIT = 10.0  # seconds that a scheduler and Snakemake add to a submitted job, as `make test-slurm` shows


@dataclass
class Job:
    rule: str
    name: str  # its wildcards
    seconds: float
    threads: int
    on_device: bool
    on_host: bool  # stays on the submit host
    benchmark: str | None = None  # file with the seconds it took
    after: set[int] = field(default_factory=set)  # places of the jobs it waits for


def plan(config: dict, bench: Path | None, remaining: bool) -> tuple[list[Job], cost.Estimator]:
    """Every job of the workflow's own graph, or those left to do, with its estimate."""
    from snakemake.api import SnakemakeApi
    from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, Quietness, ResourceSettings

    with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api, contextlib.redirect_stdout(io.StringIO()):
        workflow = api.workflow(
            resource_settings=ResourceSettings(cores=1),
            config_settings=ConfigSettings(config=config),
            snakefile=ROOT / "Snakefile",
        )
        workflow.dag(DAGSettings(forceall=not remaining)).printrulegraph()
        dag = workflow._workflow.dag
    whole = yaml.safe_load((ROOT / "config.yaml").read_text()) | config
    loaded = settings.load(whole, ROOT)
    folders = ("checkpoint", "download/model")
    shapes = {
        model: cost.shape(entry, [f"results/{loaded['suite']}/{model}/{folder}" for folder in folders])
        for model, entry in loaded["models"].items()
    }
    estimator = cost.Estimator(loaded, cost.laws(ROOT, bench), shapes)
    found = [job for job in dag.jobs if job.output and dag.needrun(job)]  # not the targets that only collect
    place = {job: i for i, job in enumerate(found)}
    return [
        Job(
            rule=re.sub(r"^prune_heads_\d+$", "prune_heads", job.rule.name),
            name=" ".join(value for key, value in job.wildcards.items() if key != "suite"),
            seconds=estimator.seconds(
                job.rule.name,
                dict(job.wildcards.items()),
                runs=len(job.output.get("trajectories", [])),
                shards=bool(job.input.get("shards")),
            ),
            threads=job.threads,
            on_device="gpu" in job.rule.resources,
            on_host=job.rule.name in workflow._workflow._localrules,
            benchmark=str(job.benchmark) if job.benchmark else None,
            after={place[other] for other in dag.dependencies[job] if other in place},
        )
        for job in found
    ], estimator


def followers(jobs: list[Job]) -> dict[int, list[int]]:
    found = defaultdict(list)
    for i, job in enumerate(jobs):
        for earlier in job.after:
            found[earlier].append(i)
    return found


def to_the_end(jobs: list[Job], added: float = 0.0) -> list[float]:
    """Seconds of the longest chain that begins with each job."""
    later, found = followers(jobs), [-1.0] * len(jobs)

    def longest(i: int) -> float:
        stack = [i]
        while stack:
            j = stack[-1]
            open_ones = [k for k in later[j] if found[k] < 0]
            if open_ones:
                stack += open_ones
                continue
            own = jobs[j].seconds + (0 if jobs[j].on_host else added)
            found[j] = own + max((found[k] for k in later[j]), default=0.0)
            stack.pop()
        return found[i]

    return [longest(i) for i in range(len(jobs))]


def longest_chain(jobs: list[Job]) -> list[Job]:
    rest, later = to_the_end(jobs), followers(jobs)
    if not jobs:
        return []
    chain = [max((i for i, job in enumerate(jobs) if not job.after), key=lambda i: rest[i])]
    while later[chain[-1]]:
        chain.append(max(later[chain[-1]], key=lambda i: rest[i]))
    return [jobs[i] for i in chain]


def makespan(jobs: list[Job], devices: int | None, cores: int) -> float:
    """Seconds until all is done, the jobs with the longest chain behind them first.

    With `devices`, as many jobs that compute run at once and the others take a core of the submit host each;
    without, all share the `cores` of one machine, each as many as its threads.
    """
    added = SUBMIT if devices else 0.0
    rest, later = to_the_end(jobs, added), followers(jobs)
    waiting = [len(job.after) for job in jobs]
    ready = [(-rest[i], i) for i, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    free = {"device": devices or 0, "core": cores}
    ends: list[tuple[float, int, str, int]] = []
    now, held = 0.0, []
    while ready or ends:
        while ready:
            priority, i = heapq.heappop(ready)
            job = jobs[i]
            kind = "device" if devices and job.on_device else "core"
            wanted = 1 if devices else min(job.threads, cores)
            if free[kind] < wanted:
                held.append((priority, i))
                continue
            free[kind] -= wanted
            slower = 1.0 if devices else job.threads / wanted
            took = slower * job.seconds + (0 if job.on_host else added)
            heapq.heappush(ends, (now + took, i, kind, wanted))
        now, i, kind, wanted = heapq.heappop(ends)
        free[kind] += wanted
        for follower in later[i]:
            waiting[follower] -= 1
            if not waiting[follower]:
                held.append((-rest[follower], follower))
        for entry in held:
            heapq.heappush(ready, entry)
        held = []
    return now


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def table(rows: list[list[str]]) -> str:
    """Markdown, the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def line(row: list[str]) -> str:
        first, *others = zip(row, widths, strict=True)
        return f"| {' | '.join([first[0].ljust(first[1]), *(cell.rjust(w) for cell, w in others)])} |"

    rule = "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths))
    return "\n".join([line(rows[0]), f"|{rule}|", *map(line, rows[1:])])


def by_rule(jobs: list[Job]) -> dict[str, list[Job]]:
    found = defaultdict(list)
    for job in jobs:
        found[job.rule].append(job)
    return dict(sorted(found.items(), key=lambda entry: -sum(job.seconds for job in entry[1])))


def report(jobs: list[Job], estimator: cost.Estimator, devices: list[int], cores: int) -> str:
    loaded = estimator.settings
    speed, threads = loaded["device_speed"], loaded["jobs"]["threads"]
    device = (
        f"{threads} thread{'s' if threads > 1 else ''} of the benchmark's CPU"
        if speed is None
        else f"a device taken to be {speed:g} times as fast as two cores of the benchmark's CPU"
    )
    rows = [["rule", "jobs", "where", "median", "longest", "all"]]
    for rule, group in by_rule(jobs).items():
        seconds = [job.seconds for job in group]
        where = "device" if group[0].on_device else "submit host" if group[0].on_host else "node"
        rows.append([rule, str(len(group)), where, *map(duration, (median(seconds), max(seconds), sum(seconds)))])
    total = sum(job.seconds for job in jobs)
    rows.append(["all", str(len(jobs)), "", "", "", duration(total)])
    chain = longest_chain(jobs)
    heads = ["", *(f"{n} device{'s' if n > 1 else ''}" for n in devices)]
    spans = [makespan(jobs, n, cores) for n in devices]
    if speed is None:
        heads.append(f"one machine of {cores} cores")
        spans.append(makespan(jobs, None, cores))
    assumed = [
        f"{model}: {shape.parameters / 1e6:.1f} million parameters (from {shape.source}), "
        f"{loaded['models'][model]['row_tokens']:g} tokens a row"
        for model, shape in estimator.shapes.items()
    ]
    return "\n".join(
        [
            f"Suite {loaded['suite']}, runs={loaded['runs']}: {len(jobs)} jobs. Nothing was run or downloaded.",
            f"Times are estimates for {device}.",
            f"Calibrated by {estimator.laws.source}.",
            *assumed,
            "",
            table(rows),
            "",
            f"Longest chain: {duration(sum(job.seconds for job in chain))}: "
            + " > ".join(f"{job.rule} {job.name}".strip() for job in chain),
            "",
            f"A device is a GPU, or what a job gets of a node; each submitted job takes {SUBMIT:.0f} s more, waiting "
            "in a queue not counted.",
            "",
            table([heads, ["until all is done", *map(duration, spans)]]),
        ]
    )


def compare(jobs: list[Job]) -> str:
    """Estimates beside the seconds that finished jobs took, as their benchmark files say."""
    rows = [["rule", "jobs", "estimated", "measured", "estimated / measured"]]
    found = []
    for rule, group in by_rule(jobs).items():
        pairs = [(job.seconds, measured(job)) for job in group if measured(job) is not None]
        found += pairs
        if pairs:
            rows.append([rule, *_compared(pairs)])
    if not found:
        return "No finished job has left its seconds in results/SUITE/benchmarks."
    return table([*rows, ["all", *_compared(found)]])


def _compared(pairs: list[tuple[float, float]]) -> list[str]:
    estimated, took = (sum(pair[i] for pair in pairs) for i in (0, 1))
    return [str(len(pairs)), duration(estimated), duration(took), f"{estimated / took:.2f}"]


def measured(job: Job) -> float | None:
    if not job.benchmark or not Path(job.benchmark).exists():
        return None
    with open(job.benchmark, newline="", encoding="utf-8") as file:
        return float(next(csv.DictReader(file, delimiter="\t"))["s"])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", help="a file of suites/, default as config.yaml says")
    parser.add_argument("--speed", type=float, help="of the device, in two cores of the benchmark's CPU")
    parser.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE", help="as for snakemake")
    parser.add_argument("--devices", nargs="+", type=int, default=[1, 4, 16], help="numbers of GPUs to look at")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="of the submit host or the one machine")
    parser.add_argument("--bench", type=Path, help="calibrate by the benchmark in this folder, such as results/bench")
    parser.add_argument("--remaining", action="store_true", help="only what is left to do")
    parser.add_argument("--measured", action="store_true", help="compare with what finished jobs took")
    given = parser.parse_args(arguments)
    wrong = [pair for pair in given.config if "=" not in pair]
    if wrong:
        raise UserError(f"--config {wrong[0]}: write KEY=VALUE")
    config = {key: yaml.safe_load(value) for key, value in (pair.split("=", 1) for pair in given.config)}
    config |= {"suite": given.suite} if given.suite else {}
    config |= {"device_speed": given.speed} if given.speed else {}
    if given.bench and not (given.bench / "shapes").is_dir():
        raise UserError(f"--bench {given.bench}: there is no benchmark; `make bench` makes one in results/bench")
    jobs, estimator = plan(config, given.bench, given.remaining)
    print(report(jobs, estimator, given.devices, given.cores))
    if given.measured:
        print(f"\n{compare(jobs)}")


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"capacity: {error}")
