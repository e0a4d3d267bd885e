"""Scores and accuracies move as they must, whatever a caller does: properties of every criterion, on drawn cases."""

import copy
from contextlib import ExitStack
from functools import cache
from itertools import cycle

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support import Tiny
from transformers.pytorch_utils import Conv1D

from gnorm import scores
from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation, Gathered
from gnorm.models import surgery
from gnorm.pruning.trajectory import follow
from gnorm.scores import gnorm, gradient, hard_concrete, together

# Projections apart, tied, in one and in groups; and a language model.
KINDS = ("bert", "albert", "gpt2", "llama", "writer")
CLASSIFIERS = KINDS[:-1]
ROWS = 4

QUICK = {
    "shapley": {"permutations": 2},
    "hard_concrete": {"steps": 2},
    "attribution": {"steps": 2},
    "hybrid": {"of": {"gnorm": 1, "fisher": 1, "taylor": 1, "entropy": -1, "magnitude": 1}, "members": {}},
}
EVERY = {name: QUICK.get(name, {}) for name in scores.names()}
# Criteria that have other formulas, by these.
OTHERWISE = {
    "gnorm": {"objective": "task_loss"},
    "gradient": {"objective": "logit_norm"},
    "mask_gradient": {"normalize": True},
    "taylor": {"absolute": "entries"},
    "attribution": {"steps": 1, "objective": "logit_norm"},
    "entropy": {"variant": "A"},
    "hybrid": {"of": {"gnorm": 1, "entropy": -0.5}, "combine": "product"},
}
# They draw by a head's place, so another head in that place gets another draw.
DRAWN_BY_PLACE = {"random", "shapley", "hard_concrete"}


def few(examples):
    """Draw the same few examples in every run; where one fails, no smaller one is looked for, which takes minutes."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
    )


@cache
def tiny(kind):
    """A small model, and rows of which the first has no class."""
    made = Tiny("gpt2" if kind == "writer" else kind, layers=2, width=16, writes=kind == "writer")
    if kind != "writer":
        known = [row for row in made.rows if row["label"] >= 0][: ROWS - 1]
        made.rows = [{**made.rows[-1], "label": -1}, *known]
    made.rows = made.rows[:ROWS]
    return made


def pruned(kind, gone):
    """A copy of the model without some heads; a place beyond the model's means none."""
    case, model = tiny(kind), copy.deepcopy(tiny(kind).model)
    rows, heads = case.heads.shape
    surgery.prune(model, case.heads, {slot for slot in gone if slot[0] < rows and slot[1] < heads})
    return model


places = st.sets(st.tuples(st.integers(0, 1), st.integers(0, 3)), max_size=3)
budgets = st.integers(1, 150)


def score(kind, model, rows=None, tokens=60, weights=None, by_batch=True):
    """Every criterion's score, by name, also in its other form; with the notebooks' gradient of a batch, or without."""
    case = tiny(kind)
    rows = case.rows if rows is None else rows
    made = batches.make(case.tokenizer, rows, tokens, weights)
    found = dict(together.of_all(model, case.heads, made, EVERY))
    others = together.of_all(model, case.heads, made, OTHERWISE)
    found |= {f"{name} otherwise": of_heads for name, of_heads in others.items()}
    if by_batch:
        own = {"granularity": "batch", "batch_rows": 2}
        packed = gnorm.batches(case.tokenizer, rows, weights or [1] * len(rows), tokens, **own)
        found["gnorm by batch"] = gnorm.score(model, case.heads, packed, **own)
    return found


def evaluate(kind, model, rows=None, tokens=60, known=None):
    case = tiny(kind)
    rows = classed(case.rows) if rows is None else rows
    wanted = ["loss", "perplexity"] if kind == "writer" else ["loss", "macro_f1", "calibration_error"]
    evaluation = Evaluation(batches.make(case.tokenizer, rows, tokens), case.heads, wanted=wanted)
    return evaluation.accuracy(model, known=known)


def classed(rows):
    return [row for row in rows if row["label"] != -1]


def same_scores(found, expected):
    assert found.keys() == expected.keys()
    for name, score in found.items():
        assert score.dtype == torch.float64 and not score.requires_grad, name
        tolerance = 1e-6 if name == "hard_concrete" else 1e-9  # Adam divides by a gradient that may be near 0
        near = (score - expected[name]).abs() <= tolerance * expected[name].abs() + 1e-12
        assert near.all(), (name, score, expected[name])


def same_accuracy(found, expected):
    assert (found.correct, found.evaluated) == (expected.correct, expected.evaluated)
    assert found.metrics == pytest.approx(expected.metrics, rel=1.1e-5)  # they keep six digits


MODES = {"as it is": ExitStack, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
HOOKS = ("asks for gradients of the embeddings", "looks at every output", "looks at every gradient")
patterns = st.lists(st.booleans(), min_size=3, max_size=3)


def hooked(model, kinds):
    if HOOKS[0] in kinds:
        model.get_input_embeddings().register_forward_hook(lambda _m, _a, output: output.requires_grad_())
    for module in model.modules():
        if HOOKS[1] in kinds:
            module.register_forward_hook(lambda *_: None)
            module.register_forward_pre_hook(lambda *_: None)
        if HOOKS[2] in kinds and isinstance(module, torch.nn.Linear | Conv1D):
            module.register_full_backward_hook(lambda *_: None)


def state(model):
    """What a caller sees of a model beside its numbers."""
    of_modules = {
        name: (module.training, getattr(module, "gradient_checkpointing", None), sorted(vars(module)), hooks(module))
        for name, module in model.named_modules()
    }
    of_weights = {name: (p.requires_grad, p.grad, p.sum().item()) for name, p in model.named_parameters()}
    return of_modules, of_weights, model.config._attn_implementation


def hooks(module):
    return [list(own.values()) for key, own in vars(module).items() if "hook" in key and isinstance(own, dict)]


@pytest.mark.parametrize("kind", KINDS)
@few(3)
@given(
    learning=patterns,
    training=patterns,
    checkpointing=st.booleans(),
    hooks=st.sets(st.sampled_from(HOOKS)),
    mode=st.sampled_from(sorted(MODES)),
    gone=places,
)
def test_the_state_of_a_model_changes_nothing_and_stays(kind, learning, training, checkpointing, hooks, mode, gone):
    model = pruned(kind, gone)
    plain = score(kind, model), evaluate(kind, model)
    for module, on in zip(model.modules(), cycle(training), strict=False):
        module.training = on
    for weight, on in zip(model.parameters(), cycle(learning), strict=False):
        weight.requires_grad_(on)
    if checkpointing and model.supports_gradient_checkpointing:
        getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    hooked(model, hooks)
    before = state(model)
    with MODES[mode]():
        found = score(kind, model), evaluate(kind, model)
    assert state(model) == before
    same_scores(found[0], plain[0])
    same_accuracy(found[1], plain[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("criterion", [gnorm, gradient, hard_concrete])
def test_weights_that_take_gradients_take_no_memory(kind, criterion):
    """A backward pass keeps the same tensors for them as for frozen ones."""
    case, model, kept = tiny(kind), pruned(kind, ()), []
    (batch,) = batches.make(case.tokenizer, case.rows, 10_000)
    own = {"steps": 1} if criterion is hard_concrete else {}
    for learning in (False, True):
        sizes = []
        model.requires_grad_(learning)
        with torch.autograd.graph.saved_tensors_hooks(lambda t, sizes=sizes: sizes.append(t.shape) or t, lambda t: t):
            criterion.score(model, case.heads, [batch], **own)
        kept.append(sizes)
    assert kept[0] == kept[1] and kept[0]


@pytest.mark.parametrize("kind", KINDS)
@few(3)
@given(order=st.permutations(range(ROWS)), tokens=budgets, evaluated=budgets, gone=places)
def test_order_and_batches_of_rows_change_nothing(kind, order, tokens, evaluated, gone):
    case, model = tiny(kind), pruned(kind, gone)
    rows = [case.rows[i] for i in order]
    same_scores(score(kind, model, rows, tokens, by_batch=False), score(kind, model, by_batch=False))
    plain, found = evaluate(kind, model), evaluate(kind, model, classed(rows), evaluated)
    same_accuracy(found, plain)
    assert found.by_row.row.tolist() == [row["row"] for row in classed(rows)]
    place = [plain.by_row.row.tolist().index(row) for row in found.by_row.row.tolist()]
    for name in ("answers", "right", "loss", *(() if kind == "writer" else ("label", "predicted", "confidence"))):
        assert getattr(found.by_row, name) == pytest.approx(getattr(plain.by_row, name)[place], rel=1e-5), name
    # Scoring predicts the same of each row, and an evaluation takes what it is told of some rows.
    predicted = Gathered(model, case.heads)
    gnorm.score(model, case.heads, batches.make(case.tokenizer, classed(rows), 10 * tokens), seen=predicted.add)
    by_row = predicted.by_row()
    for position, row in enumerate(classed(rows)):
        alone = evaluate(kind, model, [row])
        assert by_row[position].loss.mean() == pytest.approx(alone.metrics["loss"], rel=1.1e-5)
        assert (by_row[position].correct.sum(), len(by_row[position].label)) == (alone.correct, alone.evaluated)
    known = {position: of_row for position, of_row in by_row.items() if position % 2}
    same_accuracy(evaluate(kind, model, classed(rows), 1, known), plain)


@pytest.mark.parametrize("kind", KINDS)
@few(3)
@given(weights=st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS).filter(lambda w: any(w[1:])), gone=places)
def test_a_weight_is_so_many_rows(kind, weights, gone):
    case, model = tiny(kind), pruned(kind, gone)
    repeated = [row for row, weight in zip(case.rows, weights, strict=True) for _ in range(weight)]
    same_scores(score(kind, model, weights=weights), score(kind, model, repeated))
    alone = [
        (weight, evaluate(kind, model, [row])) for row, weight in zip(case.rows, weights, strict=True) if classed([row])
    ]
    found = evaluate(kind, model, classed(repeated))
    assert found.correct == sum(weight * one.correct for weight, one in alone)
    assert found.evaluated == sum(weight * one.evaluated for weight, one in alone)
    losses = sum(weight * one.evaluated * one.metrics["loss"] for weight, one in alone)
    assert found.metrics["loss"] == pytest.approx(losses / found.evaluated, rel=1.1e-5)


def permute_heads(model, heads, orders):
    """Give the place i of each row what belongs to the head orders[row][i], in place."""
    for block, order in zip(heads.blocks, orders, strict=True):

        def of(size, width, order=order):
            return torch.arange(size).view(-1, width)[list(order)].flatten()

        widths = {"query": heads.width, "key": heads.key_width, "value": heads.key_width}
        fused = block.query == block.key
        for part in ("query",) if fused else widths:
            module, width = model.get_submodule(getattr(block, part)), widths[part]
            size = len(order) * width
            places = torch.cat([of(size, width) + i * size for i in range(3 if fused else 1)])
            along = 1 if isinstance(module, Conv1D) else 0
            module.weight.copy_(module.weight.index_select(along, places))
            if module.bias is not None:
                module.bias.copy_(module.bias[places])
        module = model.get_submodule(block.output)
        along = 0 if isinstance(module, Conv1D) else 1
        module.weight.copy_(module.weight.index_select(along, of(len(order) * heads.width, heads.width)))


def trajectory(kind, model):
    """The slots that greedy Gnorm prunes, and the accuracy after each."""
    case = tiny(kind)
    evaluation = Evaluation(batches.make(case.tokenizer, classed(case.rows), 60), case.heads, 10)
    made = batches.make(case.tokenizer, case.rows, 60)
    steps = follow(model, case.heads, evaluation, lambda current: (gnorm.score(current, case.heads, made), {}))
    return [(step.layer, step.head, step.correct, step.parameters) for step, _ in steps]


@pytest.mark.parametrize("kind", KINDS)
@few(3)
@given(data=st.data(), gone=places)
def test_permuted_heads_permute_scores_and_nothing_else(kind, data, gone):
    case = tiny(kind)
    rows, heads = case.heads.shape
    orders = [data.draw(st.permutations(range(heads))) for _ in range(rows)]
    place = {(row, order[i]): (row, i) for row, order in enumerate(orders) for i in range(heads)}  # of each head now
    plain, moved = pruned(kind, gone), copy.deepcopy(case.model)
    permute_heads(moved, case.heads, orders)
    surgery.prune(moved, case.heads, [place[slot] for slot in gone if slot in place])
    (batch,) = batches.make(case.tokenizer, case.rows, 10_000)
    assert (moved(**batch.inputs).logits - plain(**batch.inputs).logits).abs().max() < 1e-11
    same_accuracy(evaluate(kind, moved), evaluate(kind, plain))
    found, expected = ({n: s for n, s in score(kind, m).items() if n not in DRAWN_BY_PLACE} for m in (moved, plain))
    same_scores(
        found, {n: torch.stack([s[row, list(orders[row])] for row in range(rows)]) for n, s in expected.items()}
    )
    expected = [(*place.get(step[:2], (None, None)), *step[2:]) for step in trajectory(kind, plain)]
    assert trajectory(kind, moved) == expected


def permute_classes(model, order):
    """Let output i be that of the class order[i], in place."""
    *_, classifier = (m for m in model.modules() if isinstance(m, torch.nn.Linear) and m.out_features == len(order))
    for part in filter(lambda part: part is not None, (classifier.weight, classifier.bias)):
        part.copy_(part[list(order)])


@pytest.mark.parametrize("kind", CLASSIFIERS)
@few(3)
@given(data=st.data(), gone=places)
def test_permuted_classes_change_nothing(kind, data, gone):
    case, plain = tiny(kind), pruned(kind, gone)
    order = data.draw(st.permutations(range(plain.config.num_labels)))
    moved = copy.deepcopy(plain)
    permute_classes(moved, order)
    rows = [{**row, "label": row["label"] if row["label"] < 0 else order.index(row["label"])} for row in case.rows]
    (batch,) = batches.make(case.tokenizer, case.rows, 10_000)
    assert (moved(**batch.inputs).logits - plain(**batch.inputs).logits[:, list(order)]).abs().max() < 1e-12
    same_scores(score(kind, moved, rows), score(kind, plain))
    same_accuracy(evaluate(kind, moved, classed(rows)), evaluate(kind, plain))
