"""How long the rest of a run takes."""

import io
import logging
import threading
from types import SimpleNamespace

import pytest
from snakemake.logging import DefaultFormatter

from gnorm.planning.cost import Costs, Ratios
from gnorm.planning.estimate import Job, Plan, Watch, duration, watch


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Said(Costs):
    """Predictions whose law is said by the job; dimensions of the models in `unknown` are not there yet."""

    def __init__(self):
        self.learning, self._ended, self.unknown = False, Ratios(), set()

    def known(self, model):
        return model not in self.unknown

    def law(self, rule, wildcards):
        return wildcards["seconds"]


def plan(jobs, cores=2):
    clock = Clock()
    return Plan(jobs, cores, Said(), clock), clock


def job(id, seconds, kind="prune_heads", **wildcards):
    return Job(id, kind, {"model": "A", "seconds": seconds} | wildcards)


def test_predictions_are_corrected_by_what_finished_jobs_took():
    made, clock = plan([job(1, 100), job(2, 300), job(3, 300, model="B"), job(4, 10, "draw_figure")])
    assert made.left() == pytest.approx(710 / 2)
    made.start([1])
    clock.now += 150  # this machine takes half as long again
    made.finish(1)
    assert made.left() == pytest.approx((450 + 450 + 10) / 2)
    made.start([2, 3])
    clock.now += 60
    assert made.left() == pytest.approx((390 + 390 + 10) / 2)
    clock.now += 1000  # far over time: still something left
    assert 0 < made.left() < 40
    assert "1 of 4 jobs done, 2 running; about" in made.line()


def test_one_long_job_bounds_the_time_from_below():
    made, _ = plan([job(1, 100), job(2, 1000)], cores=8)
    assert made.left() == pytest.approx(1000)


def test_nothing_is_said_of_models_that_are_not_there_yet():
    made, _ = plan([job(1, 100), job(2, 10, "make_dataset", model="B")])
    made.costs.unknown.add("A")
    assert made.left() is None and "is known once the models are there" in made.line()
    made.costs.unknown.clear()
    assert made.left() == pytest.approx(100)


def test_jobs_of_others_and_jobs_whose_start_was_not_seen():
    made, _ = plan([job(1, 100), job(2, 10, "x")])
    made.start([99])
    made.finish(99)
    made.finish(1)
    assert made.running == {} and not made.costs._ended.of_kind and made.left() == 10


def test_it_is_told_through_the_logger_at_most_every_so_often(caplog):
    made, clock = plan([job(i, 20) for i in (1, 2, 3)])
    logger = logging.getLogger("test-estimate")
    logger.addHandler(watcher := Watch(made, logger, every=30))
    with caplog.at_level(logging.INFO, "test-estimate"):
        event = lambda name, **extra: logger.info(name, extra={"event": SimpleNamespace(value=name), **extra})  # noqa: E731
        event("job_started", jobs=[1, 2])
        clock.now += 10
        event("job_finished", job_id=1)
        clock.now += 25
        event("job_finished", job_id=2)
        event("job_finished", job_id=3)  # all done: nothing is left to tell
    logger.removeHandler(watcher)
    told = [record.getMessage() for record in caplog.records if "jobs done" in record.getMessage()]
    assert len(told) == 1 and told[0].startswith("2 of 3 jobs done, 0 running; about 20 s left, until ")


def test_snakemakes_own_formatter_shows_how_many_jobs_there_are(monkeypatch):
    """It writes a message without its arguments."""
    monkeypatch.setattr(threading.Thread, "start", lambda _self: None)
    logger, written = logging.getLogger("test-estimate-formatted"), io.StringIO()
    logger.setLevel(logging.INFO)
    logger.addHandler(handler := logging.StreamHandler(written))
    handler.setFormatter(DefaultFormatter(quiet=None))
    watch(plan([job(i, 20) for i in range(12)])[0], logger)
    assert written.getvalue() == "12 jobs to do\n"


@pytest.mark.parametrize(
    ("seconds", "said"), [(1, "5 s"), (63, "65 s"), (100, "2 min"), (3000, "50 min"), (7500, "2 h 05 min")]
)
def test_durations(seconds, said):
    assert duration(seconds) == said
