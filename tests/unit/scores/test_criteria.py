"""Every criterion against its naive definition, on all families, pruned or not; and what it costs."""

import copy
import math

import oracles
import pytest
import torch
from scipy.stats import rankdata
from support import FAMILIES, Tiny, counted

from gnorm import scores
from gnorm.engine.batches import in_order
from gnorm.engine.finite import NotFinite
from gnorm.errors import UserError
from gnorm.models import surgery
from gnorm.models.gates import Gates
from gnorm.pruning.trajectory import choose
from gnorm.scores import (
    attribution,
    fisher,
    gradient,
    hard_concrete,
    hybrid,
    leave_one_out,
    magnitude,
    mask_gradient,
    random,
    shapley,
    taylor,
    together,
)

ROWS = 5


@pytest.fixture(params=[False, True], ids=["whole", "pruned"])
def case(request, tiny):
    """A model of every family with rows that have a class, whole or without some heads and a whole layer."""
    tiny.rows = [row for row in tiny.rows if row["label"] >= 0][:ROWS]
    if request.param:
        tied = tiny.heads.shape[0] == 1
        gone = [(0, 1), (0, 2)] if tied else [(0, 1), (0, 2), *((1, head) for head in range(4)), (2, 3)]
        surgery.prune(tiny.model, tiny.heads, gone)
    return tiny


def of(case, criterion, **settings):
    """The score of batches with padding in them."""
    made = in_order(case.tokenizer, case.rows, 3)
    assert any(batch.mask.min() == 0 for batch in made) and len(made) > 1
    return criterion.score(case.model, case.heads, made, **settings)


def same(found, expected, kept):
    assert found.dtype == torch.float64 and (found[~kept] == 0).all()
    assert expected[kept].abs().max() > 1e-6
    assert ((found - expected).abs() <= 1e-9 * expected.abs() + 1e-13).all(), (found, expected)


def test_magnitude(case):
    same(
        magnitude.score(case.model, case.heads, []),
        oracles.magnitude(case.model, case.heads),
        case.heads.kept(case.model),
    )


@pytest.mark.parametrize("objective", ["task_loss", "logit_norm"])
def test_gradient(case, objective):
    expected = oracles.gradient(case.model, case.heads, case.tokenizer, case.rows, objective)
    same(of(case, gradient, objective=objective), expected, case.heads.kept(case.model))


def test_mask_gradient_and_fisher(case):
    gates = oracles.gate_gradients(case.model, case.heads, case.tokenizer, case.rows)
    kept = case.heads.kept(case.model)
    same(of(case, mask_gradient), gates.abs().mean(0), kept)
    same(of(case, fisher), gates.square().mean(0), kept)
    norms = gates.abs().mean(0).square().sum(1, keepdim=True).sqrt().clamp_min(1e-300)
    same(of(case, mask_gradient, normalize=True), gates.abs().mean(0) / norms, kept)


def test_taylor(case):
    products = oracles.attention_products(case.model, case.heads, case.tokenizer, case.rows)
    kept = case.heads.kept(case.model)
    # One gate switches a head in all layers of its slot: they add up before the absolute value.
    summed = torch.stack([products[:, :, list(block.layers)].sum(2) for block in case.heads.blocks], dim=2)
    same(of(case, taylor), summed[:, 0].abs().mean(0), kept)
    same(of(case, taylor, absolute="entries"), summed[:, 1].mean(0), kept)


def test_taylor_as_written_is_the_mask_gradient(case):
    same(of(case, taylor), of(case, mask_gradient), case.heads.kept(case.model))
    assert not torch.allclose(of(case, taylor, absolute="entries"), of(case, mask_gradient))


@pytest.mark.parametrize("objective", ["label_probability", "logit_norm"])
def test_attribution(case, objective):
    """Padded batches give what rows one by one give, and what an oracle without padding gives."""
    case.rows = case.rows[:4]
    expected = oracles.attribution(case.model, case.heads, case.tokenizer, case.rows, 3, objective)
    same(of(case, attribution, steps=3, objective=objective), expected, case.heads.kept(case.model))
    single = case.batches(4, tokens=1)
    assert len(single) == 4 and all(batch.mask.all() for batch in single)
    alone = attribution.score(case.model, case.heads, single, steps=3, objective=objective)
    same(alone, expected, case.heads.kept(case.model))


def test_attributions_of_a_layer_add_up_to_its_effect(case):
    """With many steps: F with the layer's attention less F without it, the axiom of integrated gradients."""
    (batch,) = case.batches(1, tokens=1)
    layer = case.heads.shape[0] - 1
    total = 0.0
    for k in range(200):
        matrix, found = attribution.scaled(case.model, case.heads, batch, layer, 0, (k + 0.5) / 200, "logit_norm")
        total += (matrix * found).sum() / 200
    without = copy.deepcopy(case.model)
    runs = iter(range(9))
    without.get_submodule(case.heads.blocks[layer].output).register_forward_pre_hook(
        lambda _m, args: (args[0] * 0,) if next(runs) == 0 else None
    )
    with torch.no_grad():
        effect = case.model(**batch.inputs).logits.norm() - without(**batch.inputs).logits.norm()
    assert total.item() == pytest.approx(effect.item(), abs=1e-3 * abs(effect.item()) + 1e-6)


def test_leave_one_out(case):
    expected = oracles.leave_one_out(case.model, case.heads, case.tokenizer, case.rows)
    same(of(case, leave_one_out), expected, case.heads.kept(case.model))


def test_shapley(case):
    slots = [tuple(slot) for slot in case.heads.kept(case.model).nonzero().tolist()]
    orders = [random.order(slots, "shapley", 7, i) for i in range(3)]
    expected = oracles.shapley(case.model, case.heads, case.tokenizer, case.rows, orders)
    errors = {}
    found = of(case, shapley, permutations=3, seed=7, errors=errors)
    same(found, expected.mean(0), case.heads.kept(case.model))
    assert torch.allclose(errors["shapley"], expected.std(0) / 3**0.5, rtol=1e-6, atol=1e-12)
    without = oracles.LossWithout(case.model, case.heads, case.tokenizer, case.rows)
    assert found.sum().item() == pytest.approx(without(slots) - without([]), abs=1e-10)


def test_shapley_comes_near_all_orders(make_tiny, caplog):
    """Within four standard errors of the mean over all 24 orders, and the error shrinks as it should."""
    caplog.set_level("INFO")
    tiny = make_tiny("albert")
    tiny.rows = [row for row in tiny.rows if row["label"] >= 0][:ROWS]
    exact = oracles.shapley(tiny.model, tiny.heads, tiny.tokenizer, tiny.rows)
    assert exact.shape == (24, 1, 4)
    few, many = {}, {}
    shapley.score(tiny.model, tiny.heads, tiny.batches(ROWS), permutations=10, errors=few)
    found = shapley.score(tiny.model, tiny.heads, tiny.batches(ROWS), permutations=160, errors=many)
    assert ((found - exact.mean(0)).abs() < 4 * many["shapley"]).all()
    assert 0.15 < (many["shapley"] / few["shapley"]).mean() < 0.4
    assert "shapley: 160 orders, standard error of a value" in caplog.text
    assert not torch.equal(
        shapley.score(tiny.model, tiny.heads, tiny.batches(ROWS), permutations=3, seed=1),
        shapley.score(tiny.model, tiny.heads, tiny.batches(ROWS), permutations=3, seed=2),
    )


def test_hard_concrete(case):
    case.rows = case.rows[:4]
    settings = {"steps": 3, "rate": 0.2, "penalty": 0.5, "seed": 5}
    expected, kept = oracles.hard_concrete(case, **settings), case.heads.kept(case.model)
    found = of(case, hard_concrete, **settings)
    assert (found[~kept] == 0).all() and (found[kept] != hard_concrete.START).all()
    assert (found - expected).abs().max() < 1e-5  # differences are good for so much
    assert torch.equal(found, of(case, hard_concrete, **settings))
    assert not torch.equal(found, of(case, hard_concrete, **settings | {"seed": 6}))
    assert not any(p.requires_grad or p.grad is not None for p in case.model.parameters())


def test_a_drawn_gate_is_not_zero_as_often_as_expected():
    """The share of draws above 0, and the mean over draws, against the closed form and the quantile function."""
    log_alpha = torch.tensor([-4.0, -1.0, 0.0, 2.0, 6.0], dtype=torch.float64)
    uniform = ((torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000)[:, None]
    drawn = hard_concrete.sample(log_alpha, uniform)
    assert drawn.min() == 0 and drawn.max() == 1
    assert torch.allclose((drawn > 0).double().mean(0), hard_concrete.open_probability(log_alpha), atol=2e-5)
    assert ((drawn == 0).any(0) & (drawn == 1).any(0))[1:4].all()  # both ends with a probability of their own
    off = math.log(1 / 11)  # where 1.2 sigmoid - 0.1 is 0
    assert hard_concrete.trained(torch.tensor([off - 1e-6, off + 1e-6, 5.0])).tolist()[::2] == [0, 1]
    assert 0 < hard_concrete.trained(torch.tensor([off + 1e-3]))[0] < 1e-3


def test_a_high_price_closes_all_gates_and_closed_gates_can_be_cut_out(case, caplog):
    caplog.set_level("INFO")
    kept = case.heads.kept(case.model)
    before = [p.clone() for p in case.model.parameters()]
    found = of(case, hard_concrete, steps=60, penalty=1000.0)
    assert (hard_concrete.trained(found)[kept] == 0).all()
    assert f"{int(kept.sum())} of {int(kept.sum())} gates are closed after 60 steps" in caplog.text
    free = of(case, hard_concrete, steps=60, penalty=0.0)
    assert (hard_concrete.trained(free)[kept] > 0).any()
    assert all(torch.equal(a, b) for a, b in zip(before, case.model.parameters(), strict=True))
    some = of(case, hard_concrete, steps=80, penalty=8.0)
    (batch,) = case.batches(ROWS, tokens=10_000)
    with Gates(case.model, case.heads) as gates, torch.no_grad():
        gates.values = torch.where(kept, hard_concrete.trained(some), 1.0)
        expected, closed = case.model(**batch.inputs).logits, gates.closed
        assert closed and surgery.remove_closed(gates) == closed
        assert (case.model(**batch.inputs).logits - expected).abs().max() < 1e-12
        order = sorted(kept.nonzero().tolist(), key=lambda slot: some[tuple(slot)])
        assert {tuple(slot) for slot in order[: len(closed)]} == set(closed)  # these go first


def test_a_useless_gate_closes_and_a_vital_one_stays_open(planted):
    tiny, vital = planted
    sure = copy.deepcopy(tiny.model)  # of the labels it predicts: then whatever changes it does harm
    *_, classifier = (module for module in sure.modules() if isinstance(module, torch.nn.Linear))
    classifier.weight *= 30
    classifier.bias *= 30
    free, priced = (
        hard_concrete.score(sure, tiny.heads, tiny.batches(24), steps=60, penalty=penalty) for penalty in (0.0, 1.0)
    )
    assert free[USELESS] == hard_concrete.START < free[vital]  # nothing moves a gate that does nothing
    gates = hard_concrete.trained(priced)
    assert gates[USELESS] == 0 and gates[vital] > 0.75
    assert priced[USELESS] <= priced.flatten().sort().values[priced.numel() // 4]
    assert priced[vital] >= priced.median()


def test_batches_and_memory_do_not_change_trained_gates(make_tiny, monkeypatch):
    tiny = make_tiny("roberta")
    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    whole, single = ([*tiny.batches(6, tokens=tokens)] for tokens in (10_000, 1))
    expected = hard_concrete.score(tiny.model, tiny.heads, single, steps=5)
    forward, sizes = tiny.model.forward, []

    def short_of_memory(input_ids, **inputs):
        sizes.append(len(input_ids))
        if len(input_ids) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(input_ids, **inputs)

    monkeypatch.setattr(tiny.model, "forward", short_of_memory)
    assert len(whole) == 1
    found = hard_concrete.score(tiny.model, tiny.heads, whole, steps=5)
    assert max(sizes) == 6 and max(sizes[3:]) <= 2
    assert (found - expected).abs().max() < 1e-9


MEMBERS = {"gnorm": {"objective": "task_loss"}, "entropy": {}, "fisher": {}, "magnitude": {}}
WEIGHTS = {"gnorm": 1.0, "entropy": -0.5, "fisher": 2.0, "magnitude": 0.25}


@pytest.mark.parametrize("combine", ["sum", "product"])
def test_hybrid(case, combine):
    kept = case.heads.kept(case.model)
    expected = torch.zeros(case.heads.shape, dtype=torch.float64)
    expected[kept] = 0.0 if combine == "sum" else 1.0
    for name, weight in WEIGHTS.items():
        alone = of(case, scores.load(name), **MEMBERS[name])
        ranks = torch.tensor(rankdata(alone[kept].numpy()))
        expected[kept] = expected[kept] + weight * ranks if combine == "sum" else expected[kept] * ranks**weight
    same(of(case, hybrid, of=WEIGHTS, combine=combine, members=MEMBERS), expected, kept)


def test_equal_scores_share_their_rank():
    values = torch.tensor([3.0, 1.0, 3.0, 2.0, 3.0])
    assert hybrid.rank(values).tolist() == rankdata(values.numpy()).tolist() == [4, 1, 4, 2, 4]


@pytest.mark.parametrize("count,different", [(0, 1), (1, 1), (7, 1), (50, 5), (300, 300), (301, 40)])
def test_ranks_equal_those_counted_one_by_one(count, different):
    """How many are lower, and half of those that are equal; -0.0 equals 0.0."""
    drawn = torch.randint(different, (count,), generator=torch.Generator().manual_seed(count)).double()
    values = torch.where(torch.arange(count) % 3 == 0, -drawn, drawn) / 7
    expected = [sum(b < a for b in values) + (sum(b == a for b in values) + 1) / 2 for a in values]
    assert hybrid.rank(values).dtype == torch.float64 and hybrid.rank(values).tolist() == expected


def test_ranks_of_many_slots_take_little_memory():
    """Neurons one by one are so many: all pairs of them would take terabytes."""
    assert hybrid.rank(torch.arange(10**6).flip(0))[[0, -1]].tolist() == [10**6, 1]


ALL = scores.names()
SETTINGS = {
    "hard_concrete": {"steps": 3},
    "shapley": {"permutations": 3},
    "attribution": {"steps": 2},
    "hybrid": {"of": {"gnorm": 1, "fisher": 1, "taylor": 1, "entropy": -1, "magnitude": 1}, "members": {}},
}


@pytest.mark.parametrize("name", ALL)
def test_the_cost_is_what_is_run(case, name, monkeypatch):
    criterion, settings = scores.load(name), SETTINGS.get(name, {})
    calls = counted(monkeypatch, case.model)
    criterion.score(case.model, case.heads, case.batches(ROWS, tokens=10_000), **settings)
    assert (calls["forward"], calls["backward"]) == together.cost_of_all(case.model, case.heads, {name: settings})


def test_criteria_share_passes(case, monkeypatch):
    """One pass an objective, and the same scores as alone."""
    made = case.batches(ROWS, tokens=10_000)
    wanted = {name: {} for name in ("magnitude", "gnorm", "gradient", "mask_gradient", "fisher", "taylor")}
    alone = {name: scores.load(name).score(case.model, case.heads, made) for name in wanted}
    calls = counted(monkeypatch, case.model)
    found = together.of_all(case.model, case.heads, made, wanted)
    assert calls == {"forward": 2, "backward": 2}  # the logits' norm, and the loss
    assert together.cost_of_all(case.model, case.heads, wanted) == (2, 2)
    assert list(found) == list(wanted)
    for name in wanted:
        same(found[name], alone[name], case.heads.kept(case.model))


def test_a_hybrid_takes_what_its_members_have_scored_already(case, monkeypatch):
    """With the same settings, whatever comes first; what nobody has scored, or otherwise, it scores itself."""
    made, kept = case.batches(ROWS, tokens=10_000), case.heads.kept(case.model)
    members = {"fisher": {}, "gnorm": {"objective": "task_loss"}, "shapley": {"permutations": 3}, "entropy": {}}
    settings = {"of": {"fisher": 1.0, "gnorm": 2.0, "shapley": 1.0, "entropy": -1.0}, "members": members}
    others = {"fisher": {}, "gnorm": {}, "shapley": {"permutations": 3}}
    alone = {name: scores.load(name).score(case.model, case.heads, made, **own) for name, own in others.items()}
    alone["hybrid"] = hybrid.score(case.model, case.heads, made, **settings)
    one, slots = together.cost_of_all(case.model, case.heads, {"hybrid": settings}), int(kept.sum())
    assert one == (1 + 1 + 2 + 3 * (slots - 1), 1)  # the loss for two; entropy; shapley
    for wanted in ({"hybrid": settings, **others}, {**others, "hybrid": settings}):
        with monkeypatch.context() as patch:
            calls = counted(patch, case.model)
            taken = together.of_all(case.model, case.heads, made, wanted)
        cost = together.cost_of_all(case.model, case.heads, wanted)
        # The loss and the logits' norm; shapley; of the hybrid gnorm, with settings of its own, and entropy.
        assert (calls["forward"], calls["backward"]) == cost == (2 + 2 + 3 * (slots - 1) + 1 + 1, 3)
        assert list(taken) == list(wanted)
        for name, found in taken.items():
            same(found, alone[name], kept)


@pytest.mark.parametrize("name", ALL)
def test_a_row_counts_as_often_as_its_weight_and_without_a_class_not_at_all(make_tiny, name):
    """A criterion that scores rows without a class must not look at classes."""
    tiny, everywhere = make_tiny("roberta"), torch.ones(3, 4).bool()
    classless = next(row for row in tiny.rows if row["label"] < 0)
    first, second = [row for row in tiny.rows if row["label"] >= 0][:2]

    def score(*rows, weights=None):
        tiny.rows = list(rows)
        made = tiny.batches(len(rows), weights=weights)
        return scores.load(name).score(tiny.model, tiny.heads, made, **SETTINGS.get(name, {}))

    expected = score(first, first, second)
    same(score(first, second, weights=[2, 1]), expected, everywhere)
    try:
        alone = score(classless)
    except UserError as error:
        assert "no calibration row has a class" in str(error)
        if not scores.describe(name).made_of_others:  # of whose members some count it
            same(score(first, second, classless, weights=[2, 1, 1]), expected, everywhere)
    else:
        for label in (first["label"], 1 - first["label"]):
            same(score({**classless, "label": label}), alone, everywhere)


@pytest.mark.parametrize("name", ALL)
def test_a_model_without_heads_has_no_scores(tiny, name):
    surgery.prune(tiny.model, tiny.heads, [(row, h) for row in range(tiny.heads.shape[0]) for h in range(4)])
    tiny.rows = [row for row in tiny.rows if row["label"] >= 0]
    found = scores.load(name).score(tiny.model, tiny.heads, tiny.batches(2), **SETTINGS.get(name, {}))
    assert found.shape == tiny.heads.shape and (found == 0).all()


@pytest.mark.parametrize(
    "name", ["gradient", "mask_gradient", "fisher", "taylor", "leave_one_out", "shapley", "hard_concrete"]
)
def test_a_score_that_is_not_finite_names_its_head(make_tiny, name):
    tiny = make_tiny("bert")
    tiny.model.get_submodule(tiny.heads.blocks[1].value).weight[:] = float("nan")
    with pytest.raises(NotFinite, match=r"for row \d+: it begins at or below layer 1, in all heads from head 0"):
        scores.load(name).score(tiny.model, tiny.heads, tiny.batches(2), **SETTINGS.get(name, {}))


@pytest.mark.parametrize("name", ["taylor", "attribution"])
def test_a_model_without_attention_weights_is_refused(make_tiny, name):
    tiny = make_tiny("bert")
    attention = tiny.model.get_submodule(tiny.heads.blocks[0].attention)
    forward = attention.forward
    attention.forward = lambda *args, **kwargs: (*forward(*args, **kwargs)[:1], None)
    with pytest.raises(UserError, match="gives no attention weights"):
        scores.load(name).score(tiny.model, tiny.heads, tiny.batches(2))


USELESS = (0, 1)


def plant(tiny):
    """One head whose blocks are all zero, one far stronger than the rest, labels that the model predicts.

    Returns the strong head's slot.
    """
    vital = (tiny.heads.shape[0] - 1, 2)
    for row, block in enumerate(tiny.heads.blocks):
        for head in range(tiny.heads.heads):
            own = slice(head * tiny.heads.width, (head + 1) * tiny.heads.width)
            attending, passing = {USELESS: (0, 0), vital: (1.5, 2)}.get((row, head), (0.5, 0.3))
            factors = ((block.query, attending), (block.key, attending), (block.value, passing))
            for module, factor in ((tiny.model.get_submodule(name), factor) for name, factor in factors):
                module.weight[own] *= factor
                module.bias[own] *= factor
            tiny.model.get_submodule(block.output).weight[:, own] *= passing
    tiny.rows = [{**row, "label": predicted(tiny, tiny.model, row)} for row in tiny.rows[:24]]
    return vital


def predicted(tiny, model, row):
    return int(model(**oracles.one(tiny.tokenizer, row)).logits.argmax())


@pytest.fixture(params=FAMILIES, scope="module")
def planted(request):
    tiny = Tiny(request.param)
    return tiny, plant(tiny)


def test_the_planted_heads_are_what_they_are_said_to_be(planted):
    tiny, vital = planted
    right = {}
    for slot in (USELESS, vital):
        pruned = copy.deepcopy(tiny.model)
        surgery.prune(pruned, tiny.heads, [slot])
        (batch,) = tiny.batches(6, tokens=10_000)
        same_outputs = torch.allclose(pruned(**batch.inputs).logits, tiny.model(**batch.inputs).logits, atol=1e-12)
        assert same_outputs == (slot == USELESS)
        right[slot] = sum(predicted(tiny, pruned, row) == row["label"] for row in tiny.rows)
    assert right[USELESS] == 24 > right[vital]


# A gate that is fully open learns nothing more, so `hard_concrete` has no order among those (its own test is above).
@pytest.mark.parametrize("name", [name for name in ALL if name not in ("random", "hard_concrete")])
def test_a_useless_head_goes_first_and_a_vital_one_last(planted, name):
    tiny, vital = planted
    criterion = scores.load(name)
    settings = {"shapley": {"permutations": 8}, "hybrid": {"of": {"gnorm": 1, "entropy": -1, "magnitude": 1}}}
    found = criterion.score(tiny.model, tiny.heads, tiny.batches(24), **settings.get(name, {}))
    everywhere = torch.ones(tiny.heads.shape, dtype=torch.bool)
    last = choose(found, everywhere, "highest" if criterion.PRUNE == "lowest" else "lowest")
    assert last == vital
    if name in ("leave_one_out", "shapley"):  # a weak head may do harm, and then goes before the useless one
        assert found[USELESS].abs() < 1e-12 and choose(found.abs(), everywhere, "lowest") == USELESS
    else:
        assert choose(found, everywhere, criterion.PRUNE) == USELESS
