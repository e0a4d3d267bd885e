"""How much of a run is done, and how long the rest will take."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gnorm.planning.cost import Costs

if TYPE_CHECKING:
    from snakemake.workflow import Workflow


@dataclass(frozen=True)
class Job:
    id: int
    kind: str  # its rule
    wildcards: dict[str, str] = field(default_factory=dict)
    cores: int = 1


class Plan:
    """The jobs of a run; those that end teach `costs` how long the others will take."""

    def __init__(self, jobs: Iterable[Job], cores: int, costs: Costs, clock: Callable[[], float] = time.monotonic):
        self.jobs = {job.id: job for job in jobs}
        self.cores, self.costs, self.clock = cores, costs, clock
        self.running: dict[int, float] = {}  # id -> when it began
        self.done: set[int] = set()

    def start(self, ids: Iterable[int]) -> None:
        self.running |= {i: self.clock() for i in ids if i in self.jobs}

    def finish(self, id: int) -> None:
        if id not in self.jobs:
            return
        self.done.add(id)
        job, began = self.jobs[id], self.running.pop(id, None)
        if began is not None and self.costs.known(job.wildcards.get("model")):
            self.costs.learn(job.kind, job.wildcards, self.clock() - began)

    def left(self) -> float | None:
        """Seconds until all is done, with all cores busy; None as long as a model's dimensions are not known."""
        total = longest = 0.0
        for job in (job for id, job in self.jobs.items() if id not in self.done):
            if not self.costs.known(job.wildcards.get("model")):
                return None
            seconds = self.costs.seconds(job.kind, job.wildcards)
            if job.id in self.running:  # one that takes longer than expected is about to end
                seconds = max(seconds - (self.clock() - self.running[job.id]), 0.05 * seconds)
            longest = max(longest, seconds)
            total += seconds * min(job.cores, self.cores)
        return max(longest, total / self.cores)

    def line(self) -> str:
        done = f"{len(self.done)} of {len(self.jobs)} jobs done, {len(self.running)} running"
        left = self.left()
        if left is None:
            return f"{done}; how long the rest takes is known once the models are there"
        end = time.strftime("%H:%M", time.localtime(time.time() + left))
        return f"{done}; about {duration(left)} left, until {end}"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


class Watch(logging.Handler):
    """Hears of jobs from Snakemake's logger, and says through it how far they are, at most every `every` seconds."""

    def __init__(self, plan: Plan, logger: logging.Logger, every: float = 30.0):
        super().__init__(logging.INFO)
        self.plan, self.logger, self.every, self.said = plan, logger, every, plan.clock()

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(getattr(record, "event", None), "value", None)
        if event == "job_started":
            self.plan.start(record.jobs)
        elif event == "job_finished":
            self.plan.finish(record.job_id)
            if len(self.plan.done) < len(self.plan.jobs):
                self.tell()

    def tell(self) -> None:
        if self.plan.clock() - self.said >= self.every:
            self.said = self.plan.clock()
            self.logger.info(self.plan.line())

    def run(self) -> None:
        """Tell also while no job ends, until the process does."""
        while True:
            time.sleep(self.every)
            with self.lock:
                self.tell()


def of_workflow(workflow: Workflow, costs: Costs) -> Plan:
    """The jobs that Snakemake is about to run."""
    on_cluster = workflow.nodes  # how many jobs at once
    jobs = [
        Job(job.jobid, job.rule.name, job.wildcards_dict, 1 if on_cluster else job.threads)
        for job in workflow.dag.needrun_jobs()
        if not job.is_norun
    ]
    return Plan(jobs, on_cluster or workflow.cores, costs)


def watch(plan: Plan, logger: logging.Logger) -> None:
    """Say through Snakemake's logger how far a plan is, until the process ends."""
    watcher = Watch(plan, logger)
    logger.info(f"{len(plan.jobs)} jobs to do")  # Snakemake's log file has messages as they are, without arguments
    logger.addHandler(watcher)
    threading.Thread(target=watcher.run, daemon=True).start()
