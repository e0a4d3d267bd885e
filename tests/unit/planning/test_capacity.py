"""The cost of a suite before it runs: its jobs, their order, and what more devices make of it."""

import subprocess
import sys

import estimate_capacity
import pytest
from support import ROOT, planned

from gnorm.errors import UserError
from gnorm.planning import capacity


def test_the_longest_chain_waits_for_the_slowest():
    seconds = {"dataset": 10, "other": 30, "checkpoint": 50, "merge": 5}
    after = {"checkpoint": ["dataset"], "merge": ["other", "checkpoint", "target"]}
    assert capacity.longest_chain(seconds, after) == ["dataset", "checkpoint", "merge"]
    assert capacity.longest_chain({}, {}) == []


def run(*arguments, cwd=ROOT, fails=False):
    command = [sys.executable, "scripts/estimate_capacity.py", *arguments]
    made = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert bool(made.returncode) == fails, made.stderr[-3000:]
    return made.stdout + made.stderr


def test_the_jobs_are_those_that_snakemake_plans(smoke):
    said = run("--suite", "smoke", cwd=smoke)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines()]
    counts = {row[0]: int(row[1]) for row in rows if len(row) == 5 and row[1].isdigit() and row[0] != "all"}
    everything = planned(smoke, "--forceall", "--config", "suite=smoke")
    assert counts == {rule: n for rule, n in everything.items() if rule in counts} and counts["prune_heads"] == 10
    assert "predicted by what 21 finished jobs took" in said
    assert "0 jobs" in run("--suite", "smoke", "--remaining", cwd=smoke)


def test_the_suite_paper_is_estimated_without_a_download():
    before = set((ROOT / "results").iterdir())
    said = run("--suite", "paper", "--speed", "20", "--config", "runs=1")
    assert set((ROOT / "results").iterdir()) == before
    assert "BERT: 102.3 million parameters (from the paper), 20 tokens a row" in said
    assert "20 times two CPU cores" in said and "predicted by flops alone" in said and "fetch_model" in said


def test_mistakes_are_one_line():
    with pytest.raises(UserError, match="write KEY=VALUE"):
        estimate_capacity.main(["--config", "runs"])
    said = run("--suite", "papr", fails=True)
    assert "did you mean 'paper'" in said and "Traceback" not in said
