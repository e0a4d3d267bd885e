"""The card does not wait for the host: what makes it wait does not grow with the number of batches."""

import pytest
from jobs import CRITERIA, FAMILIES, STRATEGIES, on_disk

from gnorm import scores
from gnorm.benchmarks.card import WAITS
from gnorm.benchmarks.clock import own, waits
from gnorm.data.rows import read
from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation
from gnorm.models import checkpoints
from gnorm.models.heads import head_map
from gnorm.pruning.scoring import Scorer
from gnorm.pruning.trajectory import Stop, follow
from gnorm.workbench import Workbench

FEW, MANY = 10_000, 24  # tokens of a batch: all rows in one, or nearly every row alone


@pytest.fixture(params=FAMILIES)
def model(request, tmp_path):
    source = on_disk(tmp_path, request.param)
    made, tokenizer = checkpoints.load(source / "checkpoint")
    made.tokenizer, made.source = tokenizer, source
    return made


def trajectory(model, tokens):
    """Three greedy steps: how many, with how many batches, and where the host waited."""
    lists = {which: read(model.source / "dataset", which) for which in ("calibration", "evaluation")}
    bench = Workbench(model=model, tokenizer=model.tokenizer, lists=lists, tokens=tokens)
    heads, pruned = bench.heads, bench.copy()
    score = Scorer(bench, heads, STRATEGIES["greedy"], seed=7)
    made = score.evaluation_batches(bench)
    steps, limit = [], 3 * heads.layers // heads.shape[0]  # a slot of ALBERT is a head of every layer
    found = waits(
        lambda: steps.extend(follow(pruned, heads, Evaluation(made, heads, 50), score, stop=Stop(heads=limit)))
    )
    return len(steps), len(made) + len(score.batches), found


def test_waits_of_a_trajectory(model):
    steps, few, once = trajectory(model, FEW)
    again, many, often = trajectory(model, MANY)
    assert steps == again and many > 5 * few
    assert own(often) <= own(once) + steps, often.most_common(12)  # one more where a row of slots is new
    assert own(often) / steps <= WAITS, often.most_common(12)


@pytest.mark.parametrize("model", ["bert", "llama"], indirect=True)
@pytest.mark.parametrize("name", CRITERIA)
def test_waits_of_a_score(model, name):
    heads, criterion = head_map(model), scores.load(name)
    rows = read(model.source / "dataset", "calibration")

    def score(tokens):
        made = batches.resident(batches.make(model.tokenizer, rows, tokens), model.device)
        return own(found := waits(lambda: criterion.score(model, heads, made, **CRITERIA[name]))), found

    score(FEW)  # indices of slots are copied once
    (once, _), (often, found) = score(FEW), score(MANY)
    assert once == often, found.most_common(12)
