"""Trajectories: complete, replayable, ended when told, and resampled run by run."""

import copy

import pytest
import torch

from gnorm.evaluate import accuracy
from gnorm.rows import resample
from gnorm.scores import gnorm
from gnorm.trajectory import Stop, choose, follow, replay


def run(tiny, **options):
    model = copy.deepcopy(tiny.model)
    calibration = tiny.batches(4)
    taken = []

    def score(current):
        taken.append(tiny.heads.left(current))
        return gnorm.score(current, tiny.heads, calibration)

    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    return list(follow(model, tiny.heads, tiny.batches(20), score, **options)), taken


def test_visits_every_head_once_and_replays(tiny):
    steps, taken = run(tiny)
    order = [(s.layer, s.head) for s, _ in steps[1:]]
    slots = tiny.heads.shape[0] * tiny.heads.heads
    assert len(set(order)) == len(order) == slots == len(taken)
    assert steps[0][0].layer is None and steps[-1][0].heads_left == 0
    replayed = list(replay(copy.deepcopy(tiny.model), tiny.heads, tiny.batches(20), order, range(slots + 1)))
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
        measured = accuracy(tiny.model, tiny.batches(20, tokens))
        assert (measured.correct, measured.evaluated) == (expected, 20)


def test_run_0_takes_rows_as_they_are_and_others_resample():
    assert resample(5, 0, seed=1) == [1] * 5
    first, again, other = resample(50, 1, seed=1), resample(50, 1, seed=1), resample(50, 2, seed=1)
    assert first == again != other
    assert sum(first) == sum(other) == 50 and 0 in first
