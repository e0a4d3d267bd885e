"""The tables of faults and of strangers are those of the tests, and what long runs cost."""

import re
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from outcomes import KINDS, listed, marked
from support import ROOT, copy_workflow, shard_file, snakemake

from gnorm.engine.evaluate import Evaluation
from gnorm.engine.metrics import ByRow
from gnorm.pruning.runs import Steps
from gnorm.pruning.trajectory import follow
from gnorm.resume import State
from gnorm.scores import gnorm
from gnorm.statistics.outcomes import Outcomes


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.mark)
def test_a_table_lists_every_test_of_its_mark(kind):
    """Written by `make test-faults` and `make test-strangers`; a test that is new, gone or reworded makes it stale."""
    path = ROOT / kind.page
    table = listed(path)
    assert path.read_text(encoding="utf-8").startswith(kind.header)
    assert sorted(line[:3] for line in table) == sorted(marked(ROOT / "tests", kind.mark))
    waiting = {test for test, *_, times in table if not times}
    assert waiting <= set(slow_tests())  # what takes long may wait until the table is written next


def slow_tests():
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        text = path.read_text(encoding="utf-8")
        all_of_them = re.search(r"^pytestmark = .*mark\.slow", text, re.M)
        before = r"" if all_of_them else r"@pytest\.mark\.slow\n(?:[@ )].*\n)*"
        names = re.findall(before + r"def (test_\w+)", text)
        yield from (f"{path.relative_to(ROOT).as_posix()}::{name}" for name in names)


PEAK = """
import resource, sys
import merge_entropy
means, _, _, rows = merge_entropy.merge(sys.argv[1:])
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
@pytest.mark.fault("1,000 entropy shards", "merged one at a time: 1,000 take no more memory than 20")
def test_a_thousand_shards_merge_in_constant_memory(tmp_path):
    """200 rows of 12 x 12 heads each, 230 MB in all."""
    torch.manual_seed(0)
    values = torch.rand(200, 12, 12, dtype=torch.float64)
    paths = [shard_file(tmp_path / f"{i}.pt", 200 * i, values) for i in range(1000)]

    def peak(count):
        command = [sys.executable, "-c", PEAK, *paths[:count]]
        made = subprocess.run(command, cwd=ROOT / "scripts", capture_output=True, text=True, check=True)
        rows, megabytes = map(int, made.stdout.split())
        assert rows == 200 * count
        return megabytes

    few, many = peak(20), peak(1000)
    assert many < few + 20, (few, many)


@pytest.mark.slow
@pytest.mark.fault("state is written after every step of a BERT-base shape", "it takes less than 2% of the step")
def test_the_cost_of_state(tmp_path, record_property):
    """The last write of a run is the longest: 145 steps, 144 scores of 12 x 12, what was answered on each row.

    With 10,000 rows a step takes at least ten times as long.
    """
    from gnorm.benchmarks import models, shapes
    from gnorm.engine.batches import make

    shape = shapes.SHAPES["BERT"]
    model, heads = models.build(shape)
    tokenizer = models.Ids(shape)
    calibration = make(tokenizer, models.rows(shape, 32), 2048)
    evaluation = Evaluation(make(tokenizer, models.rows(shape, 128), 2048), heads, 500)
    steps = []
    for step in follow(model, heads, evaluation, lambda m: (gnorm.score(m, heads, calibration), {})):
        steps.append(step)
        if len(steps) == 4:
            break
    rng, seconds = np.random.default_rng(0), statistics.median(step.seconds for step, _ in steps[1:])
    for rows, longer in ((128, 1), (10_000, 10)):
        progress = Steps(State(tmp_path / f"{rows}.pt", {"model": "x" * 64}), 0)
        progress.steps = [(steps[1][0], steps[1][1])] * 128
        values = rng.random(rows, dtype=np.float32)
        by_row = ByRow(*[np.ones(rows, int)] * 3, values, *[np.ones(rows, int)] * 2, values)
        step, took = replace(steps[1][0], by_row=by_row), []
        progress.answered.points = [Outcomes.of(by_row, curve=0, heads_pruned=i, heads=144) for i in range(128)]
        for _ in range(16):  # all that share a file
            began = time.perf_counter()
            progress.add(step, steps[1][1])
            took.append(time.perf_counter() - began)
        share = statistics.mean(took) / (longer * seconds)
        print(f"{rows} rows: {1000 * statistics.mean(took):.1f} ms, a step {longer * seconds:.2f} s: {share:.2%}")
        assert share < 0.02


@pytest.mark.slow
@pytest.mark.fault(
    "the disk of a running workflow is full", "the job's log and the terminal have one line; room, and it goes on"
)
def test_a_full_disk_stops_a_workflow_with_one_line(tmp_path, small_disk):
    tree = copy_workflow(tmp_path / "tree")
    (tree / "results").rename(tree / "not_here")
    (tree / "results").symlink_to(small_disk)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(8 * 2**20 - 128 * 1024))
    target = ("results/smoke/BERT/checkpoint", "--config", "suite=smoke")
    made = snakemake(tree, *target)
    assert made.returncode
    lines = [line for line in made.stderr.splitlines() if "the disk is full: results/smoke/" in line]
    assert lines and all("was not written; make room and start again" in line for line in lines)
    assert "Traceback" not in made.stderr
    filler.unlink()
    made = snakemake(tree, *target)
    assert made.returncode == 0, made.stderr[-3000:]
