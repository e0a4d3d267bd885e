"""Attention entropy by hand, against loops, and through shards."""

import math
import weakref
from types import SimpleNamespace

import oracles
import pytest
import torch

from gnorm.engine.batches import Batch
from gnorm.models.heads import Block, HeadMap
from gnorm.scores import entropy

EPSILON = 1e-7


def eager(tiny):
    tiny.model.config._attn_implementation = "eager"
    return tiny


class Fixed(torch.nn.Module):
    """A model whose one attention module returns a given matrix."""

    class Attention(torch.nn.Module):
        def forward(self, matrix):
            return torch.zeros(1), matrix

    def __init__(self, matrix):
        super().__init__()
        self.attention, self.matrix = self.Attention(), matrix
        self.config = type("Config", (), {"pruned_heads": {}})
        self.device = torch.device("cpu")

    def forward(self, output_attentions, **_inputs):
        self.attention(self.matrix)
        return SimpleNamespace(logits=None)


def test_by_hand():
    """Two tokens and one of padding: rows (1, 0) and (1/2, 1/2)."""
    matrix = torch.tensor([[[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]]])
    heads = HeadMap((Block("attention", "", "", "", "", (0,)),), heads=1, width=1, hidden=1)
    mask = torch.tensor([[1, 1, 0]])
    batch = Batch(
        {"attention_mask": mask}, torch.tensor([0]), torch.tensor([0]), torch.ones(1).double(), torch.tensor([0])
    )
    e = 0.01
    found = entropy.of_rows(Fixed(matrix), heads, batch, epsilon=e)
    assert found.values["A"].item() == pytest.approx(math.log(2) / 2, abs=1e-15)
    b = (-math.log(1 + e) - math.log(0.5 + e)) / 2
    c = (-(1 + e) * math.log(1 + e) - e * math.log(e) - 2 * (0.5 + e) * math.log(0.5 + e)) / 2
    assert found.values["B"].item() == pytest.approx(b, abs=1e-15)
    assert found.values["C"].item() == pytest.approx(c, abs=1e-15)
    assert found.nan.item() == 1 and found.inf.item() == 0  # 0 log 0 in the first row, padding does not count


@pytest.mark.parametrize("variant", entropy.VARIANTS)
def test_padded_batches_equal_the_naive_loop(tiny, variant):
    eager(tiny)
    expected = oracles.entropy(tiny.model, tiny.heads, tiny.tokenizer, tiny.rows[:5], EPSILON, variant)
    (batch,) = tiny.batches(5, tokens=10_000)
    assert batch.mask.min() == 0
    found = entropy.of_rows(tiny.model, tiny.heads, batch, EPSILON).values[variant]
    assert (found - expected[batch.positions]).abs().max() < 1e-12


def test_float32(tiny):
    eager(tiny).model.float()
    together = torch.zeros(5, tiny.heads.layers, tiny.heads.heads, dtype=torch.float64)
    alone = torch.zeros_like(together)
    for tokens, result in ((10_000, together), (1, alone)):
        for batch in tiny.batches(5, tokens=tokens):
            result[batch.positions] = entropy.of_rows(tiny.model, tiny.heads, batch, EPSILON).values["C"]
    assert (together - alone).abs().max() < 1e-5


def test_no_attention_is_kept(tiny):
    """When a layer starts, the attention of those before it is gone."""
    eager(tiny)
    made, alive = [], []
    (batch,) = tiny.batches(3, tokens=10_000)
    for block in tiny.heads.blocks:
        inner = tiny.model.get_submodule(block.attention)

        def watched(*arguments, original=inner.forward, **options):
            alive.append(sum(reference() is not None for reference in made))
            output = original(*arguments, **options)
            made.append(weakref.ref(output[1]))
            return output

        inner.forward = watched
    entropy.of_rows(tiny.model, tiny.heads, batch, EPSILON)
    assert len(made) == tiny.heads.layers and alive == [0] * tiny.heads.layers
    for block in tiny.heads.blocks:
        del tiny.model.get_submodule(block.attention).forward
    with torch.no_grad():
        assert tiny.model(**batch.inputs, output_attentions=True).attentions[0].numel() > 0  # hooks are gone


def test_tied_layers_are_averaged_into_slots(make_tiny):
    tiny = eager(make_tiny("albert"))
    rows = oracles.entropy(tiny.model, tiny.heads, tiny.tokenizer, tiny.rows[:3], EPSILON, "C")
    found = entropy.score(tiny.model, tiny.heads, tiny.batches(3), EPSILON)
    assert found.shape == (1, 4)
    assert (found - rows.mean((0, 1))).abs().max() < 1e-12
