"""How long the rest of a run takes."""

import io
import logging
import threading
from types import SimpleNamespace

import pytest
from snakemake.logging import DefaultFormatter
from support import costs_of

from gnorm.planning.estimate import Progress, duration, watch


class Run(Progress):
    """Progress of jobs whose law is what they say, told at the times that a test sets."""

    def __init__(self, *jobs, cores=2):
        costs, self.now, self.told = costs_of("smoke"), 1000.0, io.StringIO()
        costs.law, costs.known = lambda rule, wildcards: wildcards["seconds"], lambda model: model != "unknown"
        logger = logging.Logger("test-estimate")
        logger.addHandler(logging.StreamHandler(self.told))
        super().__init__(dict(enumerate(jobs)), cores, costs, logger, lambda: self.now)

    def event(self, name, after=0.0, **extra):
        self.now += after
        self.handle(logging.makeLogRecord({"event": SimpleNamespace(value=name), **extra}))


def job(seconds, rule="prune_heads", model="A"):
    return rule, {"model": model, "strategy": "ae", "seconds": seconds}, 1


def test_predictions_are_corrected_by_what_finished_jobs_took():
    run = Run(job(100), job(300), job(300, model="B"))
    assert run.left() == pytest.approx(700 / 2)
    run.event("job_started", jobs=[0, 99])
    run.event("job_finished", after=150, job_id=0)  # this machine takes half as long again
    assert run.left() == pytest.approx((450 + 450) / 2)
    run.event("job_started", jobs=[1])
    run.now += 60
    assert run.left() == pytest.approx(450) and "1 of 3 jobs done, 1 running; about 8 min left" in run.line()
    run.event("job_finished", job_id=99)  # another's, and one whose start was not seen
    run.event("job_finished", job_id=2)
    assert run.left() == pytest.approx(390)


def test_a_job_that_takes_longer_makes_the_estimate_grow():
    """It does not say for minutes that all is about to end."""
    run = Run(job(100), job(100), cores=1)
    run.event("job_started", jobs=[0])
    for seconds, left in ((60, 40), (60, 30), (80, 50)):
        run.now += seconds
        assert run.left() == pytest.approx(left + 100)


def test_one_long_job_bounds_the_time_from_below():
    assert Run(job(100), job(1000), cores=8).left() == pytest.approx(1000)


def test_nothing_is_said_of_models_that_are_not_there_yet():
    run = Run(job(100, model="unknown"), job(10))
    assert run.left() is None and "is known once the models are there" in run.line()


def test_it_is_told_through_the_logger_at_most_every_so_often():
    run = Run(job(20), job(20), job(20))
    run.event("job_started", jobs=[0, 1])
    run.event("job_finished", after=10, job_id=0)
    run.event("job_finished", after=25, job_id=1)
    run.event("job_finished", after=60, job_id=2)  # all done: nothing is left to tell
    assert run.told.getvalue().startswith("2 of 3 jobs done, 0 running; about 20 s left, until ")
    assert run.told.getvalue().count("\n") == 1


def test_snakemakes_own_formatter_shows_how_many_jobs_there_are(monkeypatch):
    """It writes a message without its arguments."""
    monkeypatch.setattr(threading.Thread, "start", lambda _self: None)
    logger, written = logging.Logger("test-estimate"), io.StringIO()
    logger.addHandler(handler := logging.StreamHandler(written))
    handler.setFormatter(DefaultFormatter(quiet=None))
    job = SimpleNamespace(jobid=1, rule=SimpleNamespace(name="x"), wildcards_dict={}, threads=1, is_norun=False)
    watch(SimpleNamespace(nodes=2, dag=SimpleNamespace(needrun_jobs=lambda: [job])), costs_of("smoke"), logger)
    assert written.getvalue() == "1 jobs to do\n"


def test_durations():
    said = {1: "5 s", 63: "65 s", 100: "2 min", 3000: "50 min", 7500: "2 h 05 min"}
    assert {seconds: duration(seconds) for seconds in said} == said
