"""What a criterion's scores are taken from is decided once, for trajectories and for the comparison."""

import pytest
import torch

from gnorm import scores
from gnorm.data.rows import resample
from gnorm.pruning import scoring
from gnorm.pruning.comparison import Progress, score_part
from gnorm.pruning.scoring import Scorer, Source, source
from gnorm.resume import State

BY_BATCH = {"granularity": "batch", "batch_rows": 3}


@pytest.mark.parametrize(
    "name,settings,shards,expected",
    [
        ("entropy", {}, ["0-3.pt"], "shards"),
        ("entropy", {}, [], "shared"),
        ("gnorm", {}, ["0-3.pt"], "shared"),
        ("gnorm", BY_BATCH, [], "own"),
        ("gnorm", {"granularity": "sentence"}, [], "shared"),
        ("shapley", {"permutations": 2}, [], "shared"),
    ],
)
def test_source(name, settings, shards, expected):
    assert source(name, settings, shards) == expected


@pytest.mark.parametrize("settings", [{}, BY_BATCH])
@pytest.mark.parametrize("run", [0, 1])
def test_a_strategy_and_the_comparison_score_the_same(make_tiny, tmp_path, settings, run):
    tiny = make_tiny("bert")
    rows = [row for row in tiny.rows if row["label"] >= 0][:8]
    bench = tiny.bench(rows, rows)
    score = Scorer(bench, tiny.heads, {"score": "gnorm", "rescore": "never", "settings": settings}, run=run, seed=1)
    alone, _ = score(tiny.model)
    done = Progress(State(tmp_path / "state.pt", {}), run)
    compared, _ = score_part(bench, Source(bench, [], run, 1), ["gnorm"], {"gnorm": settings}, done)
    assert torch.equal(alone, compared["gnorm"])


def test_criteria_of_other_rows_share_no_batches(make_tiny, tmp_path):
    """Entropy without shards, beside a criterion of the calibration rows."""
    tiny = make_tiny("bert")
    tiny.model.config._attn_implementation = "eager"
    rows = [row for row in tiny.rows if row["label"] >= 0][:9]
    bench = tiny.bench(rows[:3], rows)
    bench._lists["entropy"] = rows[3:]
    criteria = {"magnitude": {}, "gnorm": {}, "entropy": {}}
    done = Progress(State(tmp_path / "state.pt", {}), 0)
    together, _ = score_part(bench, Source(bench, [], 1, 1), list(criteria), criteria, done)
    for name, which, count in (("gnorm", "calibration", 3), ("entropy", "entropy", 6)):
        made = bench.batches(which, resample(count, 1, 1))
        alone = scores.load(name).score(tiny.model, tiny.heads, made)
        assert torch.allclose(together[name], alone, rtol=1e-9, atol=1e-12), name


def test_a_run_with_a_model_of_its_own_scores_the_rows_as_they_are(make_tiny):
    tiny = make_tiny("bert")
    rows = [row for row in tiny.rows if row["label"] >= 0][:8]
    apart, resampling = (Source(tiny.bench(rows, rows, resamples=own), [], 2, 1) for own in (False, True))
    assert apart.weights("gnorm") == [1] * 8 != resampling.weights("gnorm") == resample(8, 2, 1)


def test_stored_scores_run_no_model(make_tiny, monkeypatch):
    tiny, asked = make_tiny("bert"), []
    rows = [row for row in tiny.rows if row["label"] >= 0][:4]
    fixed = torch.rand(tiny.heads.shape, dtype=torch.float64)
    monkeypatch.setattr(scores.load("entropy"), "from_shards", lambda *given: asked.append(given) or fixed)
    bench = tiny.bench(rows, rows)
    bench.digest = "the checkpoint's"
    strategy = {"score": "entropy", "rescore": "never", "settings": {}}
    score = scoring.Scorer(bench, tiny.heads, strategy, run=2, seed=1, shards=["0-3.pt"])
    taken, known = score(None)
    assert taken is fixed and not known and score.batches == []
    (heads, shards, weights, checkpoint) = asked[0]
    assert (shards, weights, checkpoint) == (["0-3.pt"], resample(4, 2, 1), "the checkpoint's") and heads is bench.heads
