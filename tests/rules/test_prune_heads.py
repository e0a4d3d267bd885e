"""Trajectories: complete, replayable, ended when told, and resampled run by run."""

import copy

import pytest
import torch
from scipy.stats import kendalltau
from support import Tiny

from gnorm import scores as criteria
from gnorm.data.rows import resample
from gnorm.engine.evaluate import Evaluation
from gnorm.models import surgery
from gnorm.pruning.scoring import Scorer
from gnorm.pruning.trajectory import Stop, choose, follow, replay
from gnorm.scores import gnorm


def run(tiny, memory_mb=0, **options):
    model = copy.deepcopy(tiny.model)
    calibration = tiny.batches(4)
    taken = []

    def score(current):
        taken.append(tiny.heads.left(current))
        return gnorm.score(current, tiny.heads, calibration), {}

    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    evaluation = Evaluation(tiny.batches(20), tiny.heads, memory_mb)
    return list(follow(model, tiny.heads, evaluation, score, **options)), taken


def test_visits_every_head_once_and_replays(tiny):
    steps, taken = run(tiny)
    order = [(s.layer, s.head) for s, _ in steps[1:]]
    slots = tiny.heads.shape[0] * tiny.heads.heads
    assert len(set(order)) == len(order) == slots == len(taken)
    assert steps[0][0].layer is None and steps[-1][0].heads_left == 0
    assert all(s.heads_pruned == tiny.heads.total - s.heads_left for s, _ in steps)
    evaluation = Evaluation(tiny.batches(20), tiny.heads)
    replayed = list(replay(copy.deepcopy(tiny.model), tiny.heads, evaluation, order, range(slots + 1)))
    assert [measured.correct for _, measured in replayed] == [s.correct for s, _ in steps]


def test_takes_the_lowest_of_the_current_scores(tiny):
    steps, _ = run(tiny)
    for (step, _), (_, scores) in zip(steps[1:], steps, strict=False):
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
    scores = steps[0][1].flatten()
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


def settings(score="gnorm", rescore="every_step", **own):
    return {"score": score, "prune": "lowest", "rescore": rescore, "settings": own}


def trajectory(tiny, strategy, rows, evaluated, run_number=0, memory_mb=0):
    """A trajectory as the rule makes it, and how many rows each forward pass had."""
    model, passes, bench = copy.deepcopy(tiny.model), [], tiny.bench(rows, evaluated)
    score = Scorer(bench, tiny.heads, strategy, run=run_number, seed=1)
    evaluation = Evaluation(score.evaluation_batches(bench), tiny.heads, memory_mb)
    model.register_forward_pre_hook(lambda _m, _a, k: passes.append(len(k["input_ids"])), with_kwargs=True)
    return list(follow(model, tiny.heads, evaluation, score, "lowest", strategy["rescore"])), passes


def numbers(steps):
    return [(s.layer, s.head, s.score, s.correct, s.evaluated) for s, _ in steps]


@pytest.mark.parametrize("granularity", ["sentence", "batch"])
@pytest.mark.parametrize("run_number", [0, 1])
def test_scoring_evaluates_the_rows_it_shares(make_tiny, granularity, run_number, monkeypatch):
    tiny = make_tiny("bert")
    rows = [row for row in tiny.rows if row["label"] >= 0][:12]
    strategy = settings(granularity=granularity, batch_rows=5)
    shared, passes = trajectory(tiny, strategy, rows, rows, run_number, memory_mb=100)
    drawn = len({i for i, weight in enumerate(resample(12, run_number, 1)) if weight})
    scored = 12 if granularity == "batch" else drawn
    assert sum(passes) == 12 * scored + 12 * (12 - drawn) + 12  # 12 scorings, 12 + 1 evaluations of the rest
    original = Scorer.__init__

    def unshared(self, *arguments, **settings):
        original(self, *arguments, **settings)
        self.shared = {}

    monkeypatch.setattr(Scorer, "__init__", unshared)
    alone, more = trajectory(tiny, strategy, rows, rows, run_number)
    assert sum(more) == 12 * scored + 13 * 12
    assert numbers(shared) == numbers(alone)


def test_rows_are_shared_by_name_not_by_place(make_tiny):
    """Evaluation rows in another order, some of them scored, between rescorings and with entropy too."""
    tiny = make_tiny("bert")
    rows = [row for row in tiny.rows if row["label"] >= 0][:12]
    tiny.model.config._attn_implementation = "eager"
    for strategy in (settings(), settings(rescore=3), settings("entropy", rescore=2)):
        found, _ = trajectory(tiny, strategy, rows[:8], rows[4:][::-1], memory_mb=100)
        model = copy.deepcopy(tiny.model)
        for step, _ in found:
            if step.layer is not None:
                surgery.prune(model, tiny.heads, [(step.layer, step.head)])
            right = sum(
                int(model(**tiny.tokenizer(row["text"], return_tensors="pt")).logits.argmax() == row["label"])
                for row in rows[4:]
            )
            assert (step.correct, step.evaluated) == (right, 8)


def test_a_score_taken_once_does_not_evaluate(make_tiny):
    tiny = make_tiny("bert")
    rows = [row for row in tiny.rows if row["label"] >= 0][:6]
    score = Scorer(tiny.bench(rows, rows), tiny.heads, settings(rescore="never"))
    assert score.shared == {}


def test_no_score_is_taken_that_no_step_uses(make_tiny):
    _, taken = run(make_tiny("bert"), stop=Stop(heads=4))
    assert taken == [12, 11, 10, 9]
    _, taken = run(make_tiny("albert"), stop=Stop(fraction=0.5))
    assert taken == [12, 9]


def test_bfloat16_is_announced_and_accuracy_stays_in_float32(make_tiny, caplog, monkeypatch):
    tiny = make_tiny("roberta", layers=4)
    tiny.model.float()
    rows = [row for row in tiny.rows if row["label"] >= 0][:16]
    kinds = set()
    hook = tiny.model.get_submodule(tiny.heads.blocks[2].query).register_forward_hook(
        lambda _m, _a, out: kinds.add(out.dtype)
    )
    norms = []
    original = gnorm.squared_norms

    def spy(x, g, widths):
        norms.append((x.dtype, torch.is_autocast_enabled("cpu")))
        return original(x, g, widths)

    monkeypatch.setattr(gnorm, "squared_norms", spy)
    strategy = settings(precision="bfloat16")
    score = Scorer(tiny.bench(rows, rows), tiny.heads, strategy, seed=1)
    assert score.shared == {}
    rounded, known = score(tiny.model)
    assert kinds == {torch.bfloat16} and not known
    assert norms and set(norms) == {(torch.float32, False)}  # accumulated in full
    exact = gnorm.score(tiny.model, tiny.heads, score.batches)
    hook.remove()
    assert not torch.equal(rounded, exact)
    assert torch.allclose(rounded, exact, rtol=0.3)
    score.report_precision(tiny.model)
    tau = kendalltau(rounded.flatten(), exact.flatten()).statistic
    assert 0.8 < tau <= 1
    assert f"scores in bfloat16: Kendall's tau with float32 is {tau:.4f} over 16 heads" in caplog.text


def test_the_same_model_is_never_measured_twice(make_tiny):
    """Trials start from the same unpruned model and end at the same one without heads."""
    tiny = make_tiny("bert")
    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    made, passes = tiny.batches(6, tokens=10_000), []
    start = Evaluation(made, tiny.heads, 100)
    start.accuracy(tiny.model)
    slots = [(row, head) for row in range(3) for head in range(4)]
    found = []
    for order in (slots, slots[::-1]):
        model = copy.deepcopy(tiny.model)
        model.register_forward_pre_hook(lambda *_: passes.append(1))
        found.append([m.correct for _, m in replay(model, tiny.heads, start.copy(), order, (0, 5, 12))])
    assert len(passes) == 3  # the first trial's 5 and 12, the second one's 5
    assert len(start.stored[made[0]]) == 2  # untouched by the trials
    for order, counts in zip((slots, slots[::-1]), found, strict=True):
        model, alone = copy.deepcopy(tiny.model), Evaluation(made, tiny.heads)
        assert counts == [m.correct for _, m in replay(model, tiny.heads, alone, order, (0, 5, 12))]


SMALL = {
    "attribution": {"steps": 1},
    "hard_concrete": {"steps": 2},
    "hybrid": {"of": {"gnorm": 1.0, "entropy": -1.0, "magnitude": 1.0}, "members": {}},
    "shapley": {"permutations": 2},
}
CRITERIA = [name for name in criteria.names() if name != "random"]


@pytest.fixture(scope="module", params=["bert", "albert", "llama"])
def four_slots(request):
    """A classifier, one with tied layers, and a language model whose query heads are pruned by group."""
    size = {"albert": {"layers": 2}, "llama": {"layers": 2, "writes": True}}.get(request.param)
    made = Tiny(request.param, **(size or {"layers": 2, "heads": 2}))
    made.rows = [row for row in made.rows if row["label"] is None or row["label"] >= 0][:4]
    assert made.heads.shape in ((2, 2), (1, 4)) and made.heads.queries == (2 if request.param == "llama" else 1)
    return made


@pytest.mark.parametrize("rescore,scored", [("every_step", [0, 1, 2, 3]), (2, [0, 2]), ("never", [0])])
@pytest.mark.parametrize("prune", ["lowest", "highest"])
@pytest.mark.parametrize("name", CRITERIA)
def test_every_criterion_in_any_direction_and_rescoring(four_slots, name, prune, rescore, scored):
    model, heads, rows = copy.deepcopy(four_slots.model), four_slots.heads, four_slots.rows
    strategy = {"score": name, "prune": prune, "rescore": rescore, "settings": SMALL.get(name, {})}
    bench = four_slots.bench(rows[:3], rows[1:])
    score = Scorer(bench, heads, strategy, seed=1)
    steps = list(follow(model, heads, Evaluation(score.evaluation_batches(bench), heads), score, prune, rescore))
    assert [step.step for step, taken in steps if taken is not None] == scored
    order = [(step.layer, step.head) for step, _ in steps[1:]]
    assert sorted(order) == [(row, head) for row in range(heads.shape[0]) for head in range(heads.heads)]
    left, now = copy.deepcopy(four_slots.model), None
    for (step, taken), gone in zip(steps, [*order, None], strict=True):
        assert step.heads_left == heads.left(left)
        if taken is not None:  # the scores are those of what is left now
            now = criteria.load(name).score(left, heads, score.batches, **score.settings)
            assert torch.allclose(taken, now, rtol=1e-9, atol=1e-12) and taken.abs().max() > 0
            now = taken
        if gone is None:
            break
        slots = [tuple(slot) for slot in heads.kept(left).nonzero().tolist()]
        best = (min if prune == "lowest" else max)(now[slot] for slot in slots)
        assert gone == next(slot for slot in slots if now[slot] == best)
        assert steps[step.step + 1][0].score == best
        surgery.prune(left, heads, [gone])
    again = Evaluation(score.evaluation_batches(bench), heads)
    replayed = replay(copy.deepcopy(four_slots.model), heads, again, order, range(5))
    assert [m.correct for _, m in replayed] == [step.correct for step, _ in steps]
