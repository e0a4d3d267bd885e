"""The cost of a suite before it runs: its jobs, their order, and what more devices make of it."""

import subprocess
import sys

import estimate_capacity
import pytest
from support import ROOT, planned

from gnorm.errors import UserError
from gnorm.planning import capacity
from gnorm.planning.capacity import Job


def test_the_longest_chain_waits_for_the_slowest():
    dataset, other = Job("make_dataset", 10), Job("make_dataset", 30)
    checkpoint = Job("make_checkpoint", 50, after=[dataset])
    merged = Job("merge", 5, after=[other, checkpoint])
    assert capacity.longest_chain([dataset, other, checkpoint, merged]) == [dataset, checkpoint, merged]
    assert capacity.longest_chain([]) == []


def test_the_jobs_are_those_that_snakemake_plans(smoke):
    said = run("--suite", "smoke", "--measured", cwd=smoke)
    first, compared = said.split("Longest chain")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in first.splitlines()]
    counts = {row[0]: int(row[1]) for row in rows if len(row) == 5 and row[1].isdigit() and row[0] != "all"}
    everything = planned(smoke, "--forceall", "--config", "suite=smoke")
    assert counts == {rule: n for rule, n in everything.items() if rule in counts} and counts["prune_heads"] == 10
    assert "predicted by what 21 finished jobs took" in said
    by_others = next(line.split("|")[6] for line in compared.splitlines() if line.startswith("| all"))
    assert 0.5 < float(by_others) < 2, compared
    left = run("--suite", "smoke", "--remaining", cwd=smoke)
    assert "0 jobs" in left


def test_the_suite_paper_is_estimated_without_a_download():
    before = set((ROOT / "results").iterdir())
    said = run("--suite", "paper", "--speed", "20", "--config", "runs=1", cwd=ROOT)
    assert set((ROOT / "results").iterdir()) == before
    assert "BERT: 102.3 million parameters (from the paper), 20 tokens a row" in said
    assert "20 times two CPU cores" in said and "predicted by flops alone" in said and "fetch_model" in said


def run(*arguments, cwd):
    command = [sys.executable, "scripts/estimate_capacity.py", *arguments]
    made = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-3000:]
    return made.stdout


def test_mistakes_are_one_line():
    with pytest.raises(UserError, match="write KEY=VALUE"):
        estimate_capacity.main(["--config", "runs"])
    made = subprocess.run(
        [sys.executable, "scripts/estimate_capacity.py", "--suite", "papr"], cwd=ROOT, capture_output=True, text=True
    )
    assert made.returncode and "did you mean 'paper'" in made.stderr and "Traceback" not in made.stderr
