"""How long the rest of a run takes."""

import logging
from types import SimpleNamespace

import pytest

from gnorm.estimate import SHORT, START, Job, Plan, Watch, duration


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def plan(jobs, cores=2):
    clock = Clock()
    return Plan(jobs, cores, clock), clock


def costly(id, work, kind="prune_heads", model="A"):
    return Job(id, kind, model, lambda: work)


def test_the_rate_of_finished_jobs_gives_the_rest():
    made, clock = plan([costly(1, 100), costly(2, 300), costly(3, 300), Job(4, "draw_figure")])
    assert made.left() is None and "is known once a first model is made" in made.line()
    made.start([1])
    clock.now += START + 50
    made.finish(1)
    # Half a second a row: two jobs of START + 150 s and a short one, on two cores.
    assert made.left() == pytest.approx((2 * (START + 150) + SHORT) / 2)
    made.start([2, 3])
    clock.now += 60
    assert made.left() == pytest.approx((2 * (START + 90) + SHORT) / 2)
    clock.now += 1000  # far over time: still something left
    assert 0 < made.left() < 40
    assert "1 of 4 jobs done, 2 running; about" in made.line()


def test_one_long_job_bounds_the_time_from_below():
    made, clock = plan([costly(1, 100), costly(2, 1000)], cores=8)
    made.start([1])
    clock.now += START + 10
    made.finish(1)
    assert made.left() == pytest.approx(START + 100)


def test_rates_come_from_the_jobs_most_alike():
    jobs = [costly(1, 100, "make_checkpoint", "A"), costly(2, 100, "prune_heads", "A"), costly(3, 100, "prune_heads", "B")]
    made, clock = plan([*jobs, costly(4, 100, "prune_heads", "A"), costly(5, 100, "make_checkpoint", "C")])
    for job, seconds in ((1, 10), (2, 20), (3, 40)):
        made.start([job])
        clock.now += START + seconds
        made.finish(job)
    assert made.expected(made.jobs[4]) == pytest.approx(START + 20)  # same rule and model
    assert made.expected(made.jobs[5]) == pytest.approx(START + 10)  # same rule
    short = [Job(6, "draw_figure"), Job(7, "draw_figure")]
    made, clock = plan(short)
    made.start([6])
    clock.now += 12
    made.finish(6)
    assert made.expected(made.jobs[7]) == pytest.approx(12)


def test_jobs_of_others_and_jobs_whose_start_was_not_seen():
    made, _ = plan([costly(1, 100), Job(2, "x")])
    made.start([99])
    made.finish(99)
    made.finish(1)
    assert made.running == {} and made.took == {} and made.left() == SHORT


def test_it_is_told_through_the_logger_at_most_every_so_often(caplog):
    made, clock = plan([Job(1, "a"), Job(2, "a"), Job(3, "a")])
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


@pytest.mark.parametrize(
    ("seconds", "said"), [(1, "5 s"), (63, "65 s"), (100, "2 min"), (3000, "50 min"), (7500, "2 h 05 min")]
)
def test_durations(seconds, said):
    assert duration(seconds) == said
