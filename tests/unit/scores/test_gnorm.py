"""The Gnorm score against the naive oracle."""

import oracles
import pytest
import torch
from support import FAMILIES

from gnorm.engine.finite import NotFinite
from gnorm.models import surgery
from gnorm.scores import gnorm

SLOTS = {False: [(0, 1), (2, 0), (2, 3)], True: [(0, 1), (0, 3)]}


def relative(found, expected):
    kept = expected > 0
    assert (found[~kept] == 0).all()
    return ((found - expected).abs()[kept] / expected[kept]).max().item()


@pytest.mark.parametrize("objective", ["logit_norm", "task_loss"])
def test_unpruned_model_equals_the_oracle(tiny, objective):
    rows = [row for row in tiny.rows[:8] if row["label"] >= 0]
    tiny.rows = rows
    expected = oracles.gnorm(tiny.model, tiny.heads, tiny.tokenizer, rows, objective)
    assert (expected > 0).all()
    assert relative(gnorm.score(tiny.model, tiny.heads, tiny.batches(), objective), expected) < 1e-9


def test_pruned_model_equals_the_oracle(tiny):
    tied = tiny.heads.shape[0] == 1
    surgery.prune(tiny.model, tiny.heads, SLOTS[tied])
    expected = oracles.gnorm(tiny.model, tiny.heads, tiny.tokenizer, tiny.rows[:6])
    assert (expected == 0).sum() == len(SLOTS[tied])
    assert relative(gnorm.score(tiny.model, tiny.heads, tiny.batches(6)), expected) < 1e-9


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_whole_layer_pruned(tiny, layer):
    if tiny.heads.shape[0] == 1:
        surgery.prune(tiny.model, tiny.heads, [(0, head) for head in range(tiny.heads.heads)])
        assert (gnorm.score(tiny.model, tiny.heads, tiny.batches(4)) == 0).all()
        return
    surgery.prune(tiny.model, tiny.heads, [(layer, head) for head in range(tiny.heads.heads)])
    expected = oracles.gnorm(tiny.model, tiny.heads, tiny.tokenizer, tiny.rows[:4])
    assert relative(gnorm.score(tiny.model, tiny.heads, tiny.batches(4)), expected) < 1e-9


def test_does_not_depend_on_batches_or_padding(tiny):
    alone = gnorm.score(tiny.model, tiny.heads, tiny.batches(tokens=1))
    assert len(tiny.batches(tokens=1)) == 8
    together = gnorm.score(tiny.model, tiny.heads, tiny.batches(tokens=100_000))
    assert len(tiny.batches(tokens=100_000)) == 1
    assert tiny.batches(tokens=100_000)[0].mask.min() == 0
    assert relative(together, alone) < 1e-9


@pytest.mark.parametrize("length,width", [(3, 64), (200, 16)])
def test_both_forms_of_the_norm(length, width):
    """Short sentences go through the Gram matrix, long ones directly."""
    torch.manual_seed(0)
    x = torch.randn(2, length, width, dtype=torch.float64)
    g = torch.randn(3, 2, length, width, dtype=torch.float64)
    found = gnorm.squared_norms(x, g, 3 * [width // 4])
    for b in range(2):
        for part in range(3):
            for head in range(4):
                own = g[part, b, :, head * width // 4 : (head + 1) * width // 4]
                assert found[part][b, head].item() == pytest.approx((own.T @ x[b]).pow(2).sum().item(), rel=1e-12)


@pytest.mark.parametrize("length", [5, 40])
def test_tiny_norms_do_not_underflow_in_float32(tiny, length):
    """A head whose gradients are near 1e-24, so that their squares are below what float32 holds."""
    tiny.rows = [{**tiny.rows[0], "text": " ".join(tiny.rows[0]["text"].split() * 9)[: 4 * length]}]
    block, width = tiny.heads.blocks[0], tiny.heads.width
    tiny.model.get_submodule(block.value).weight[:width] *= 1e-12
    tiny.model.get_submodule(block.value).bias[:width] *= 1e-12
    tiny.model.get_submodule(block.output).weight[:, :width] *= 1e-12
    (batch,) = tiny.batches(1)
    exact, _ = gnorm.squared_block_norms(tiny.model, tiny.heads, batch, "logit_norm")
    assert 0 < exact[0, 0, 0, 0] < 1e-44
    found, _ = gnorm.squared_block_norms(tiny.model.float(), tiny.heads, batch, "logit_norm")
    assert torch.allclose(found[exact > 0], exact[exact > 0], rtol=1e-2, atol=0)


def test_a_repeated_row_counts_as_often_as_its_weight(make_tiny):
    tiny = make_tiny("bert")
    weighted = gnorm.score(tiny.model, tiny.heads, tiny.batches(3, weights=[2, 0, 1]))
    tiny.rows = [tiny.rows[0], tiny.rows[0], tiny.rows[2]]
    assert relative(gnorm.score(tiny.model, tiny.heads, tiny.batches(3)), weighted) < 1e-9


def test_a_score_that_is_not_finite_names_its_head(make_tiny):
    tiny = make_tiny("bert")
    tiny.model.get_submodule(tiny.heads.blocks[1].value).weight[:] = float("nan")
    with pytest.raises(NotFinite, match=r"for row \d+: it begins at or below layer 1, in all heads from head 0"):
        gnorm.score(tiny.model, tiny.heads, tiny.batches(2))


@pytest.mark.parametrize("objective", ["logit_norm", "task_loss"])
def test_one_gradient_a_batch_as_in_the_notebooks(tiny, objective):
    rows = [row for row in tiny.rows if row["label"] >= 0][:7]
    settings = {"objective": objective, "granularity": "batch", "batch_rows": 3}
    for pruned in (False, True):
        if pruned:
            surgery.prune(tiny.model, tiny.heads, SLOTS[tiny.heads.shape[0] == 1])
        expected = oracles.gnorm(tiny.model, tiny.heads, tiny.tokenizer, rows, objective, size=3)
        for tokens in (1, 10_000):  # the budget does not touch these batches
            made = gnorm.batches(tiny.tokenizer, rows, [1] * 7, tokens, **settings)
            assert [len(batch.labels) for batch in made] == [3, 3, 1]
            assert relative(gnorm.score(tiny.model, tiny.heads, made, **settings), expected) < 1e-9


@pytest.mark.parametrize("factor", [1e-4, 1e-6])
def test_a_head_with_tiny_norms(tiny, factor):
    block, width = tiny.heads.blocks[0], tiny.heads.width
    tiny.model.get_submodule(block.value).weight[width : 2 * width] *= factor
    tiny.model.get_submodule(block.output).weight[:, width : 2 * width] *= factor
    expected = oracles.gnorm(tiny.model, tiny.heads, tiny.tokenizer, tiny.rows[:4])
    assert expected[0, 1] < expected[0, 0] * factor
    assert relative(gnorm.score(tiny.model, tiny.heads, tiny.batches(4)), expected) < 1e-9


def added_up_in_float64(x, g, width):
    """The same products as `squared_norms` takes of one part, every one of them added in float64."""
    terms = g * ((x @ x.transpose(1, 2)) @ g)
    return terms.double().unflatten(-1, (-1, width)).sum((1, 3))


def token_by_token(x, g, width):
    """A block's squared gradient norm as the naive loop has it in float32: outer products, added up, then the norm."""
    total = torch.zeros(len(x), g.shape[-1], x.shape[-1])
    for t in range(x.shape[1]):
        total += g[:, t, :, None] * x[:, t, None, :]
    return total.unflatten(1, (-1, width)).flatten(2).norm(dim=2).double() ** 2


@pytest.mark.parametrize("alike", [False, True])  # inputs alike and gradients that cancel out are hard to add up
@pytest.mark.parametrize("length", [7, 40, 200])
def test_adding_up_in_float32_costs_less_than_the_naive_loop_is_off_by(length, alike):
    torch.manual_seed(length)
    x, g = torch.randn(3, length, 256), torch.randn(3, length, 256)
    if alike:
        x, g = 0.1 * x + torch.randn(3, 1, 256), g - g.mean(1, keepdim=True)
    exact = (g.double().transpose(1, 2) @ x.double()).unflatten(1, (-1, 64)).square().sum((2, 3))
    naive = ((token_by_token(x, g, 64) - exact).abs() / exact).max()
    (by_gram,) = gnorm.squared_norms(x, [g], [64])
    added = ((by_gram - added_up_in_float64(x, g, 64)).abs() / exact).max() if length < 128 else 0.0
    assert by_gram.dtype == torch.float64 and added <= naive
    if length > 128 or not alike:  # the Gram form itself, in float32, loses digits where terms cancel out
        assert ((by_gram - exact).abs() / exact).max() <= naive


def test_float32_scores_are_as_near_to_float64_as_the_naive_loop(make_tiny):
    """Root mean squares of relative errors, over the families: rounding in the model itself is nearly all of it."""
    errors = {"naive": [], "engine": []}
    for family in FAMILIES:
        tiny = make_tiny(family, width=64)
        rows = tiny.rows[:6]
        expected = oracles.gnorm(tiny.model, tiny.heads, tiny.tokenizer, rows)
        tiny.model.float()
        errors["naive"].append(oracles.gnorm(tiny.model, tiny.heads, tiny.tokenizer, rows) / expected - 1)
        errors["engine"].append(gnorm.score(tiny.model, tiny.heads, tiny.batches(6)) / expected - 1)
    naive, engine = (torch.cat([e.flatten() for e in found]).square().mean().sqrt() for found in errors.values())
    assert engine <= naive, (engine, naive)
