"""Deliberately naive definitions that the fast code is held to."""

from __future__ import annotations

import math

import torch


def one(tokenizer, row):
    """The row alone as model inputs, no padding."""
    pair = (row["pair"],) if row["pair"] is not None else ()
    return tokenizer(row["text"], *pair, truncation=True, return_tensors="pt")


def gnorm(model, heads, tokenizer, rows, objective="logit_norm", size=1):
    """Eq. 9-17 as written: a full weight gradient for every sentence and projection.

    With `size` above 1, one gradient a batch of so many rows, as the notebooks do.
    """
    kept = heads.kept(model)
    total = torch.zeros(3, *heads.shape, dtype=torch.float64)
    for first in range(0, len(rows), size):
        chosen = rows[first : first + size]
        pairs = ([row["pair"] for row in chosen],) if chosen[0]["pair"] is not None else ()
        inputs = tokenizer([row["text"] for row in chosen], *pairs, padding=True, truncation=True, return_tensors="pt")
        for part in range(3):
            for index, block in enumerate(heads.blocks):
                if not kept[index].any():
                    continue
                weight = model.get_submodule(block.projections[part]).weight
                weight.requires_grad_()
                logits = model(**inputs).logits
                if objective == "logit_norm":
                    value = logits.norm()
                else:
                    labels = torch.tensor([row["label"] for row in chosen])
                    value = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
                (gradient,) = torch.autograd.grad(value, weight)
                weight.requires_grad_(False)
                for position, head in enumerate(kept[index].nonzero().flatten().tolist()):
                    own = gradient[position * heads.width : (position + 1) * heads.width]
                    total[part, index, head] += own.double().norm().item()
    return (total / len(rows)).prod(0)


def entropy(model, heads, tokenizer, rows, epsilon, variant):
    """Eq. 3 and 18-20 with loops over sentences, layers, heads, queries and columns."""
    result = torch.zeros(len(rows), heads.layers, heads.heads, dtype=torch.float64)
    for i, row in enumerate(rows):
        with torch.no_grad():
            attentions = model(**one(tokenizer, row), output_attentions=True).attentions
        for layer, attention in enumerate(attentions):
            for head in range(heads.heads):
                matrix = attention[0, head].tolist()
                total = 0.0
                for query in matrix:
                    for a in query:
                        if variant == "A":
                            total -= a * math.log(a) if a > 0 else 0.0
                        elif variant == "B":
                            total -= a * math.log(a + epsilon)
                        else:
                            total -= (a + epsilon) * math.log(a + epsilon)
                result[i, layer, head] = total / len(matrix)
    return result


def zero_heads(model, heads, slots):
    """Switch heads off by zeroing their columns of the output projection, in place."""
    for row, head in slots:
        weight = model.get_submodule(heads.blocks[row].output).weight
        with torch.no_grad():
            weight[:, head * heads.width : (head + 1) * heads.width] = 0
