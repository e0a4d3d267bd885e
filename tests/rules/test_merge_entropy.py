"""Shards of entropy: merged by rows, refused where they do not fit, and diagnosed."""

import merge_entropy
import pytest
import torch
from support import shard_file

from gnorm.errors import UserError
from gnorm.models.heads import Block, HeadMap
from gnorm.scores import entropy


def test_merge_weights_by_rows(tmp_path):
    torch.manual_seed(0)
    values = torch.rand(10, 2, 3, dtype=torch.float64)
    paths = [shard_file(tmp_path / "0-6.pt", 0, values[:7]), shard_file(tmp_path / "7-9.pt", 7, values[7:])]
    means, nan, _, rows = merge_entropy.merge(paths)
    assert rows == 10 and (nan == 0).all()
    assert torch.allclose(means["A"], values.mean(0), atol=1e-15)
    assert torch.allclose(means["C"], values.mean(0) + 4 / 10, atol=1e-15)
    heads = HeadMap(tuple(Block("", "", "", "", "", (i,)) for i in range(2)), heads=3, width=1, hidden=1)
    weights = [0, 3, 1, 1, 0, 0, 0, 2, 1, 2]
    expected = sum(w * values[i] for i, w in enumerate(weights)) / 10
    assert torch.allclose(entropy.from_shards(heads, paths, weights), expected, atol=1e-15)


def test_merge_refuses_gaps_and_short_shards(tmp_path):
    values = torch.rand(4, 1, 2, dtype=torch.float64)
    first, late = shard_file(tmp_path / "a.pt", 0, values), shard_file(tmp_path / "b.pt", 5, values)
    with pytest.raises(UserError, match="b.pt is refused: it starts at row 5.* a shard is missing"):
        merge_entropy.merge([first, late])
    with pytest.raises(UserError, match="c.pt is refused: it holds 4 rows, not those from 0 to 7"):
        merge_entropy.merge([shard_file(tmp_path / "c.pt", 0, values, last=7)])


def test_diagnostics():
    a = torch.tensor([[0.1, 0.5], [0.3, 0.2]], dtype=torch.float64)
    means = {"A": a, "B": a - torch.tensor([[0, 0], [0.01, 0]]), "C": a.flip(0) + 0.02}
    nan = torch.tensor([[0, 2], [0, 0]])
    found = merge_entropy.diagnose(means, nan=nan, inf=torch.zeros_like(nan), rows=9, epsilon=1e-7)
    assert found["heads_with_nan"] == 1 and found["nan_rows"] == [[0, 2], [0, 0]]
    assert found["largest_shift"]["B"] == {"value": pytest.approx(-0.01), "layer_head": [1, 0]}
    assert found["same_order"] == {"B": True, "C": False}
    assert found["kendall_tau"]["B"] == 1 and found["kendall_tau"]["C"] < 1
