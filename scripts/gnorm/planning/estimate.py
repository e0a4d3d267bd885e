"""How much of a run is done, and how long the rest will take."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnorm.planning.cost import Costs

if TYPE_CHECKING:
    from snakemake.workflow import Workflow

EVERY = 30.0  # seconds between two lines
LATE = 0.25  # a job that runs is expected to take at least this share of its time more


class Progress(logging.Handler):
    """Hears from Snakemake's logger of jobs, given by their ids as rule, wildcards and cores; they teach `costs`."""

    def __init__(self, jobs: Mapping[int, tuple[str, dict[str, str], int]], cores: int, costs: Costs):
        super().__init__(logging.INFO)
        self.jobs, self.cores, self.costs = jobs, cores, costs
        self.running: dict[int, float] = {}  # id -> when it began
        self.done: set[int] = set()

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(getattr(record, "event", None), "value", None)
        if event == "job_started":
            self.running |= {i: time.monotonic() for i in record.jobs if i in self.jobs}
        elif event == "job_finished" and record.job_id in self.jobs:
            self.done.add(record.job_id)
            (rule, wildcards, _), began = self.jobs[record.job_id], self.running.pop(record.job_id, None)
            if began is not None and self.costs.known(wildcards.get("model")):
                self.costs.learn(rule, wildcards, time.monotonic() - began)

    def left(self) -> float | None:
        """Seconds until all is done, with all cores busy; None as long as a model's dimensions are not known."""
        longest, total = 0.0, 0.0
        for id in self.jobs.keys() - self.done:
            rule, wildcards, cores = self.jobs[id]
            if not self.costs.known(wildcards.get("model")):
                return None
            rest = self.costs.seconds(rule, wildcards)
            if id in self.running:
                taken = time.monotonic() - self.running[id]
                rest = max(rest - taken, LATE * taken)
            longest, total = max(longest, rest), total + rest * min(cores, self.cores)
        return max(longest, total / self.cores)

    def line(self) -> str:
        done = f"{len(self.done)} of {len(self.jobs)} jobs done, {len(self.running)} running"
        left = self.left()
        if left is None:
            return f"{done}; how long the rest takes is known once the models are there"
        end = time.strftime("%H:%M", time.localtime(time.time() + left))
        return f"{done}; about {max(1, round(left / 60))} min left, until {end}"

    def keep_telling(self, logger: logging.Logger) -> None:
        """Tell every so often, also while no job ends, until all have."""
        time.sleep(EVERY)
        while len(self.done) < len(self.jobs):
            with self.lock:
                line = self.line()
            logger.info(line)
            time.sleep(EVERY)


def watch(workflow: Workflow, costs: Costs, logger: logging.Logger) -> None:
    """Say through Snakemake's logger how far the jobs are that it is about to run, until they are done."""
    at_once = workflow.nodes  # jobs on a cluster, whatever their cores
    todo = [job for job in workflow.dag.needrun_jobs() if not job.is_norun]
    jobs = {job.jobid: (job.rule.name, job.wildcards_dict, 1 if at_once else job.threads) for job in todo}
    logger.info(f"{len(jobs)} jobs to do")  # Snakemake's log file has messages as they are, without arguments
    logger.addHandler(progress := Progress(jobs, at_once or workflow.cores, costs))
    threading.Thread(target=progress.keep_telling, args=[logger], daemon=True).start()
