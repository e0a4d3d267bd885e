"""The cost of a suite before it runs: its jobs, their order, and what more devices make of it."""

import random
import subprocess
import sys

import estimate_capacity as capacity
import pytest
from estimate_capacity import SUBMIT, Job
from support import ROOT, planned

from gnorm.errors import UserError


def job(seconds, *after, device=True, host=False, threads=1):
    return Job("rule", "", seconds, threads, device, host, after=set(after))


def test_independent_jobs_share_the_devices():
    jobs = [job(100.0) for _ in range(8)]
    assert capacity.makespan(jobs, 1, 2) == pytest.approx(8 * (100 + SUBMIT))
    assert capacity.makespan(jobs, 4, 2) == pytest.approx(2 * (100 + SUBMIT))
    assert capacity.makespan(jobs, 16, 2) == pytest.approx(100 + SUBMIT)
    assert capacity.makespan(jobs, None, 2) == pytest.approx(400)


def test_the_longest_chain_is_started_first():
    jobs = [job(10.0), job(10.0), job(10.0), job(50.0, 2)]
    assert capacity.makespan(jobs, None, 1) == pytest.approx(80)
    assert capacity.makespan(jobs, None, 2) == pytest.approx(60)
    assert [j.seconds for j in capacity.longest_chain(jobs)] == [10.0, 50.0]


def test_jobs_of_the_submit_host_wait_for_its_cores_not_for_devices():
    jobs = [job(10.0, device=False, host=True) for _ in range(4)] + [job(10.0)]
    assert capacity.makespan(jobs, 1, 2) == pytest.approx(20)
    assert capacity.makespan(jobs, 1, 4) == pytest.approx(10 + SUBMIT)


def test_a_job_with_more_threads_than_cores_takes_longer():
    assert capacity.makespan([job(10.0, threads=4)], None, 2) == pytest.approx(20)


def test_no_schedule_beats_its_bounds():
    draw = random.Random(0)
    for _ in range(50):
        jobs = []
        for i in range(30):
            after = draw.sample(range(i), min(i, draw.randint(0, 3)))
            jobs.append(job(draw.uniform(1, 50), *after))
        work = sum(j.seconds for j in jobs)
        chain = sum(j.seconds for j in capacity.longest_chain(jobs))
        assert chain == pytest.approx(naive_chain(jobs))
        for cores in (1, 3, 30):
            found = capacity.makespan(jobs, None, cores)
            assert max(chain, work / cores) - 1e-6 <= found <= work / cores + chain + 1e-6  # Graham's bound
        assert capacity.makespan(jobs, None, 30) == pytest.approx(chain)


def naive_chain(jobs):
    def longest(i):
        return jobs[i].seconds + max((longest(j) for j in jobs[i].after), default=0.0)

    return max(map(longest, range(len(jobs))))


def test_the_jobs_are_those_that_snakemake_plans(smoke):
    found = run("--suite", "smoke", "--measured", cwd=smoke)
    counts = {}
    for line in found.split("Longest chain")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[1].isdigit() and cells[0] != "all":
            counts[cells[0]] = int(cells[1])
    everything = planned(smoke, "--forceall", "--config", "suite=smoke")
    assert counts == {rule: n for rule, n in everything.items() if rule in counts} and counts["prune_heads"] == 10
    assert "estimated / measured" in found
    left = run("--suite", "smoke", "--remaining", cwd=smoke)
    assert "0 jobs" in left


def test_the_suite_paper_is_estimated_without_a_download(tmp_path):
    before = set((ROOT / "results").iterdir())
    found = run("--suite", "paper", "--speed", "20", "--config", "runs=1", cwd=ROOT)
    assert set((ROOT / "results").iterdir()) == before
    assert "BERT: 102.3 million parameters (from the paper), 20 tokens a row" in found
    assert "20 times as fast" in found and "16 devices" in found and "fetch_model" in found


def run(*arguments, cwd):
    command = [sys.executable, "scripts/estimate_capacity.py", *arguments]
    made = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-3000:]
    return made.stdout


def test_mistakes_are_one_line(tmp_path):
    with pytest.raises(UserError, match="write KEY=VALUE"):
        capacity.main(["--config", "runs"])
    with pytest.raises(UserError, match="there is no benchmark"):
        capacity.main(["--bench", str(tmp_path)])
    made = subprocess.run(
        [sys.executable, "scripts/estimate_capacity.py", "--suite", "papr"], cwd=ROOT, capture_output=True, text=True
    )
    assert made.returncode and "did you mean 'paper'" in made.stderr and "Traceback" not in made.stderr
