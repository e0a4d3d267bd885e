"""The paper's Figure 2 as numbers."""

import copy

import oracles
import torch
from gradient_change import pool, query_gradient

from gnorm.models import surgery


def test_gradient_is_that_of_the_whole_weight(tiny):
    (batch,) = tiny.batches(1, tokens=1)
    row = tiny.heads.shape[0] - 1
    weight = tiny.model.get_submodule(tiny.heads.blocks[row].query).weight
    found = query_gradient(tiny.model, tiny.heads, batch, row)
    value = tiny.model(**oracles.one(tiny.tokenizer, tiny.rows[0])).logits.norm()
    assert torch.allclose(found, torch.autograd.grad(value, weight)[0], rtol=1e-10, atol=1e-14)


def test_a_pruned_head_leaves_zeros_and_changes_the_others(tiny):
    (batch,) = tiny.batches(1, tokens=1)
    row, width = tiny.heads.shape[0] - 1, tiny.heads.width
    before = query_gradient(copy.deepcopy(tiny.model), tiny.heads, batch, row)
    surgery.prune(tiny.model, tiny.heads, [(row, 1)])
    after = query_gradient(tiny.model, tiny.heads, batch, row)
    assert after.shape == before.shape
    assert (after[width : 2 * width] == 0).all()
    assert (after[:width] - before[:width]).abs().max() > 0


def test_pool():
    matrix = torch.arange(16.0).view(4, 4)
    assert pool(matrix, 2).tolist() == [[2.5, 4.5], [10.5, 12.5]]
