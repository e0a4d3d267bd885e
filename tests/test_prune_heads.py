"""Trajectories: complete, replayable, ended when told, and resampled run by run."""

import copy

import pytest
import torch

from gnorm import surgery
from gnorm.evaluate import Evaluation
from gnorm.rows import resample
from gnorm.scores import gnorm
from gnorm.trajectory import Stop, choose, follow, replay


def run(tiny, memory_mb=0, **options):
    model = copy.deepcopy(tiny.model)
    calibration = tiny.batches(4)
    taken = []

    def score(current):
        taken.append(tiny.heads.left(current))
        return gnorm.score(current, tiny.heads, calibration)

    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    evaluation = Evaluation(tiny.batches(20), tiny.heads, memory_mb)
    return list(follow(model, tiny.heads, evaluation, score, **options)), taken


def test_visits_every_head_once_and_replays(tiny):
    steps, taken = run(tiny)
    order = [(s.layer, s.head) for s, _ in steps[1:]]
    slots = tiny.heads.shape[0] * tiny.heads.heads
    assert len(set(order)) == len(order) == slots == len(taken)
    assert steps[0][0].layer is None and steps[-1][0].heads_left == 0
    evaluation = Evaluation(tiny.batches(20), tiny.heads)
    replayed = list(replay(copy.deepcopy(tiny.model), tiny.heads, evaluation, order, range(slots + 1)))
    assert [measured.correct for _, measured in replayed] == [s.correct for s, _ in steps]


def test_takes_the_lowest_of_the_current_scores(tiny):
    steps, _ = run(tiny)
    for step, scores in steps[1:]:
        kept = scores[scores > 0]
        assert step.score == kept.min().item() == scores[step.layer, step.head].item()


def test_rescoring(make_tiny):
    tiny = make_tiny("bert")
    every = run(tiny, rescore="every_step")[1]
    never = run(tiny, rescore="never")[1]
    third = run(tiny, rescore=3)[1]
    assert every == list(range(12, 0, -1)) and never == [12] and third == [12, 9, 6, 3]


def test_a_static_order_is_the_sorted_score(make_tiny):
    tiny = make_tiny("bert")
    steps, _ = run(tiny, rescore="never", prune="highest")
    scores = steps[1][1].flatten()
    order = [s.layer * 4 + s.head for s, _ in steps[1:]]
    assert order == torch.argsort(scores, descending=True).tolist()


def test_ties_go_to_the_lowest_layer_and_head():
    score, kept = torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool)
    kept[0, 0] = False
    assert choose(score, kept, "lowest") == choose(score, kept, "highest") == (0, 1)
    assert choose(torch.tensor([[0.0, 5.0]]), torch.tensor([[False, True]]), "lowest") == (0, 1)


@pytest.mark.parametrize(
    "stop,pruned", [({"heads": 5}, 5), ({"fraction": 0.5}, 6), ({"heads": 0}, 0), ({"accuracy_drop": -1.0}, 0)]
)
def test_ends_early(make_tiny, stop, pruned):
    steps, _ = run(make_tiny("bert"), stop=Stop(**stop))
    assert 12 - steps[-1][0].heads_left == pruned


def test_tied_heads_count_in_every_layer(make_tiny):
    steps, _ = run(make_tiny("albert"), stop=Stop(heads=7))  # three layers: 6 heads, not 9
    assert [s.heads_left for s, _ in steps] == [12, 9, 6]


def test_accuracy_counts_every_row_once(make_tiny):
    tiny = make_tiny("bert")
    expected = 0
    for row in tiny.rows[:20]:
        inputs = tiny.tokenizer(row["text"], return_tensors="pt")
        expected += int(tiny.model(**inputs).logits.argmax() == row["label"])
    for tokens in (1, 100, 10_000):
        measured = Evaluation(tiny.batches(20, tokens), tiny.heads).accuracy(tiny.model)
        assert (measured.correct, measured.evaluated) == (expected, 20)


def test_run_0_takes_rows_as_they_are_and_others_resample():
    assert resample(5, 0, seed=1) == [1] * 5
    first, again, other = resample(50, 1, seed=1), resample(50, 1, seed=1), resample(50, 2, seed=1)
    assert first == again != other
    assert sum(first) == sum(other) == 50 and 0 in first


def watched(model, heads, evaluation, changed):
    """Which layers an evaluation runs, and the logits it gets."""
    ran, seen = [], []
    hooks = [
        model.get_submodule(f"{name}.attention").register_forward_hook(lambda *_, i=i: ran.append(i))
        for i, name in enumerate(heads.layer_names)
    ]
    hooks.append(model.register_forward_hook(lambda _m, _a, out: seen.append(out.logits)))
    evaluation.accuracy(model, changed)
    for hook in hooks:
        hook.remove()
    return ran, seen[0]


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_reused_layers_change_nothing(make_tiny, family):
    """Same logits to the last bit, layers below the pruned one not run, every share of memory."""
    tiny = make_tiny(family, layers=5)
    (batch,) = tiny.batches(6, tokens=10_000)
    each = batch.mask.numel() * tiny.heads.hidden * 4 / 2**20
    for budget, kept in ((0, ()), (each / 2, ()), (2 * each, (1, 3)), (4 * each, (0, 1, 2, 3))):
        model = copy.deepcopy(tiny.model)
        evaluation = Evaluation([batch], tiny.heads, budget)
        assert evaluation.kept_layers == kept
        evaluation.accuracy(model)
        for row, head in ((4, 0), (2, 1), (3, 3), (0, 2), (1, 1), (4, 3)):
            surgery.prune(model, tiny.heads, [(row, head)])
            expected = model(**batch.inputs).logits
            ran, found = watched(model, tiny.heads, evaluation, row)
            assert torch.equal(found, expected)
            first = max((layer + 1 for layer in kept if layer < row), default=0)
            assert ran == list(range(first, 5))


def test_a_trajectory_with_reuse_is_the_same(make_tiny):
    plain, reused = run(make_tiny("bert")), run(make_tiny("bert"), memory_mb=100)
    keys = ("layer", "head", "score", "correct")
    assert [[getattr(s, k) for k in keys] for s, _ in plain[0]] == [[getattr(s, k) for k in keys] for s, _ in reused[0]]


def test_tied_layers_are_never_reused(make_tiny):
    tiny = make_tiny("albert")
    assert Evaluation(tiny.batches(4), tiny.heads, 1000).kept_layers == ()
