"""A job's workbench: what it loads, and how many tokens its batches may have."""

import pytest
import torch
from support import on_disk

from gnorm.engine import memory
from gnorm.files import digest
from gnorm.workbench import Workbench


@pytest.fixture
def job(make_tiny, tmp_path):
    tiny = on_disk(make_tiny("bert"), tmp_path)
    return tiny, {"checkpoint": tmp_path / "checkpoint", "dataset_folder": tmp_path / "dataset"}


def test_it_has_the_model_its_rows_and_batches_of_them(job):
    tiny, where = job
    bench = Workbench.load(**where, tokens=100, metrics=["loss"], on="cpu")
    assert [row["row"] for row in bench.rows("evaluation")] == list(range(4, 24))
    made = bench.batches("evaluation")
    assert sorted(p for batch in made for p in batch.positions.tolist()) == list(range(20))
    assert max(batch.tokens for batch in made if len(batch.labels) > 1) <= 100
    (one,) = bench.batches("calibration", [0, 3, 0, 0])
    assert one.positions.tolist() == [1] and one.weights.tolist() == [3]
    assert bench.used == {"device": "cpu", "tokens": 100, "metrics": ["loss"]}
    assert bench.digest == digest(where["checkpoint"]) and bench.heads.total == tiny.heads.total
    pruned = bench.copy()
    next(pruned.parameters()).zero_()
    assert not torch.equal(next(pruned.parameters()), next(bench.model.parameters()))


def test_the_token_budget_is_found_once_and_leaves_room_for_outputs_where_they_are_kept(job, monkeypatch):
    _, where = job
    asked, real = [], memory.token_budget

    def spy(setting, model, heads, job_mb, reuse_mb=0, probe=None):
        asked.append((setting, job_mb, reuse_mb, probe and (probe.kept, probe.reuse_mb)))
        return real(setting, model, heads, job_mb, reuse_mb, probe)

    monkeypatch.setattr("gnorm.workbench.token_budget", spy)
    for keeps, left_free in ((True, 50), (False, 0)):
        bench = Workbench.load(
            **where, tokens="auto", memory_mb=3000, reuse_mb=50, budget="kept.json", keeps_outputs=keeps
        )
        assert bench.tokens == bench.tokens and bench.batches("evaluation")
        assert asked == [("auto", 3000, left_free, ("kept.json", 50))]
        asked.clear()
    assert Workbench.load(**where, on="cpu").tokens > 256 and asked == [("auto", None, 0, None)]


def test_threads_are_those_of_the_suite(job):
    before = torch.get_num_threads()
    try:
        for threads in (2, 1):
            Workbench.load(**job[1], threads=threads)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
