"""The cost of a suite before it runs: its jobs, their order, and what more devices make of it."""

import re
import subprocess
import sys

import pytest
from support import ROOT, planned


def run(*arguments, cwd=ROOT, fails=False):
    command = [sys.executable, "scripts/estimate_capacity.py", *arguments]
    made = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert bool(made.returncode) == fails, made.stderr[-3000:]
    return made.stdout + made.stderr


def test_the_jobs_are_those_that_snakemake_plans(smoke):
    said = run("--config", "suite=smoke", cwd=smoke)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines()]
    counts = {row[0]: int(row[1]) for row in rows if len(row) == 5 and row[1].isdigit()}
    everything = planned(smoke, "--forceall", "--config", "suite=smoke")
    assert counts.pop("all") == sum(counts.values()) and counts["prune_heads"] == 10
    assert counts == {rule: n for rule, n in everything.items() if rule in counts}
    assert "predicted by what 21 finished jobs took" in said
    longest, total = next([float(cell) for cell in row[3:]] for row in rows if row[0] == "all")
    chain = float(re.search(r"wait for each other: (\S+) min", said)[1])
    assert longest + 0.2 < chain < total  # a dataset, a table and the report at least, with the longest of all
    assert "0 jobs" in run("--config", "suite=smoke", "--remaining", cwd=smoke)


def test_the_suite_paper_is_estimated_without_a_download():
    before = set((ROOT / "results").iterdir())
    said = run("--config", "suite=paper", "device_speed=20", "runs=1")
    assert set((ROOT / "results").iterdir()) == before
    assert "BERT: 102.3 million parameters (from the paper), 20 tokens a row" in said
    assert "20 times two CPU cores" in said and "predicted by flops alone" in said and "fetch_model" in said


@pytest.mark.parametrize("given, said", [("runs", "name=value"), ("suite=papr", "did you mean 'paper'")])
def test_mistakes_are_one_line(given, said):
    assert said in (answer := run("--config", given, fails=True)) and answer.count("\n") == 1
