"""How much of a run is done, and how long the rest will take."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    id: int
    kind: str  # its rule
    model: str | None
    predicted: Callable[[], float | None]  # seconds, asked for again and again; None as long as nobody knows
    cores: int = 1


class Plan:
    """The jobs of a run. How predictions do on this machine is learned from the jobs that have ended."""

    def __init__(self, jobs: Iterable[Job], cores: int, clock: Callable[[], float] = time.monotonic):
        self.jobs = {job.id: job for job in jobs}
        self.cores, self.clock = cores, clock
        self.running: dict[int, float] = {}  # id -> when it began
        self.done: set[int] = set()
        self.took: dict[int, float] = {}  # id -> seconds, of those done whose beginning was seen

    def start(self, ids: Iterable[int]) -> None:
        self.running |= {i: self.clock() for i in ids if i in self.jobs}

    def finish(self, id: int) -> None:
        if id not in self.jobs:
            return
        self.done.add(id)
        if id in self.running:
            self.took[id] = self.clock() - self.running.pop(id)

    def expected(self, job: Job) -> float | None:
        """Seconds that a job takes in all: the prediction times how far those most like it were off."""
        predicted = job.predicted()
        if predicted is None:
            return None
        ended = [(self.jobs[i], seconds) for i, seconds in self.took.items()]
        for alike in (
            lambda other: (other.kind, other.model) == (job.kind, job.model),
            lambda other: other.kind == job.kind,
            lambda other: other.model == job.model,
        ):
            found = [(seconds, other.predicted()) for other, seconds in ended if alike(other)]
            found = [(seconds, guess) for seconds, guess in found if guess]
            if found:
                return predicted * sum(seconds for seconds, _ in found) / sum(guess for _, guess in found)
        return predicted

    def left(self) -> float | None:
        """Seconds until all is done, with all cores busy; None as long as it cannot be known."""
        total = longest = 0.0
        for id, job in self.jobs.items():
            if id in self.done:
                continue
            seconds = self.expected(job)
            if seconds is None:
                return None
            if id in self.running:  # one that takes longer than expected is about to end
                seconds = max(seconds - (self.clock() - self.running[id]), 0.05 * seconds)
            longest = max(longest, seconds)
            total += seconds * min(job.cores, self.cores)
        return max(longest, total / self.cores)

    def line(self) -> str:
        done = f"{len(self.done)} of {len(self.jobs)} jobs done, {len(self.running)} running"
        left = self.left()
        if left is None:
            return f"{done}; how long the rest takes is known once the models are there"
        return (
            f"{done}; about {duration(left)} left, until {time.strftime('%H:%M', time.localtime(time.time() + left))}"
        )


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


def watch(plan: Plan, logger: logging.Logger) -> None:
    watcher = Watch(plan, logger)
    logger.info(f"{len(plan.jobs)} jobs to do")  # Snakemake's log file has messages as they are, without arguments
    logger.addHandler(watcher)
    threading.Thread(target=watcher.run, daemon=True).start()
