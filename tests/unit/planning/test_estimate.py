"""How long the rest of a run takes."""

import io
import logging
import threading
import time
from types import SimpleNamespace

import pytest
from snakemake.logging import DefaultFormatter
from support import costs_of

from gnorm.planning import estimate


class Run:
    """Progress of jobs whose law is what they say, told of events at times that a test sets."""

    def __init__(self, monkeypatch):
        self.now, self.costs, self.logger = 1000.0, costs_of("smoke"), logging.Logger("test")
        self.costs.law, self.costs.known = lambda rule, of: of["seconds"], lambda model: model != "unknown"
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def __call__(self, *jobs, cores=2):
        self.progress = estimate.Progress(dict(enumerate(jobs)), cores, self.costs)
        self.logger.addHandler(self.progress)
        return self.progress

    def wait(self, seconds, event="", **of):
        self.now += seconds
        self.logger.info("", extra={"event": SimpleNamespace(value=event), **of})


@pytest.fixture
def run(monkeypatch):
    return Run(monkeypatch)


def job(seconds, model="A"):
    return "prune_heads", {"model": model, "strategy": "ae", "seconds": seconds}, 1


def test_predictions_are_corrected_by_what_finished_jobs_took(run):
    progress = run(job(100), job(300), job(300, model="B"))
    assert progress.left() == pytest.approx(700 / 2)
    run.wait(0, "job_started", jobs=[0, 99])
    run.wait(150, "job_finished", job_id=0)  # this machine takes half as long again
    assert progress.left() == pytest.approx((450 + 450) / 2)
    run.wait(0, "job_started", jobs=[1])
    run.wait(60)
    assert progress.left() == pytest.approx(450)
    assert progress.line().startswith("1 of 3 jobs done, 1 running; about 8 min left, until ")
    run.wait(0, "job_finished", job_id=99)  # another's, and one whose start was not seen
    run.wait(0, "job_finished", job_id=2)
    assert progress.left() == pytest.approx(390)


@pytest.mark.fault("a job takes longer than was foreseen", "the time that is left is said to be more")
def test_a_job_that_takes_longer_makes_the_estimate_grow(run):
    """It does not say for minutes that all is about to end."""
    progress = run(job(100), job(100), cores=1)
    run.wait(0, "job_started", jobs=[0])
    for seconds, left in ((60, 40), (60, 30), (80, 50)):
        run.wait(seconds)
        assert progress.left() == pytest.approx(left + 100)


def test_one_long_job_bounds_the_time_and_a_model_that_is_not_there_hides_it(run):
    assert run(job(100), job(1000), cores=8).left() == pytest.approx(1000)
    progress = run(job(100, model="unknown"), job(10))
    assert progress.left() is None and "is known once the models are there" in progress.line()


def test_it_is_told_every_so_often_until_all_is_done(run, monkeypatch):
    ends = iter([[], [1], [], [2]])  # jobs, between two lines
    monkeypatch.setattr(time, "sleep", lambda _: [run.wait(30, "job_finished", job_id=id) for id in next(ends)])
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.run)
    run.logger.addHandler(handler := logging.StreamHandler(told := io.StringIO()))
    handler.setFormatter(DefaultFormatter(quiet=None))  # Snakemake's, which writes a message without its arguments
    jobs = [SimpleNamespace(jobid=id, rule=SimpleNamespace(name="x"), threads=1, is_norun=False) for id in (1, 2)]
    for one in jobs:
        one.wildcards_dict = {"seconds": 120}
    estimate.watch(SimpleNamespace(nodes=2, dag=SimpleNamespace(needrun_jobs=lambda: jobs)), run.costs, run.logger)
    assert [line.partition(" left")[0] for line in told.getvalue().splitlines() if line] == [
        "2 jobs to do",
        "0 of 2 jobs done, 0 running; about 2 min",
        *["1 of 2 jobs done, 0 running; about 2 min"] * 2,
    ]
