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


def grouped_gnorm(model, queries, keys, unit, tokenizer, rows):
    """The same for any projections, by hand: `queries` query heads over `keys` K/V heads, nothing pruned.

    Blocks are cut out of full weight gradients: W_Q, W_K and W_V below one another (out x in), or side by
    side (in x out) in GPT-2's fused c_attn.
    """
    layers = [module for module in model.modules() if hasattr(module, "c_attn") or hasattr(module, "k_proj")]
    width = model.config.hidden_size // queries
    total = torch.zeros(3, len(layers), queries, dtype=torch.float64)
    of_groups = torch.zeros(3, len(layers), keys, dtype=torch.float64)
    for row in rows:
        for index, layer in enumerate(layers):
            fused = hasattr(layer, "c_attn")
            weights = (
                [layer.c_attn.weight] if fused else [layer.q_proj.weight, layer.k_proj.weight, layer.v_proj.weight]
            )
            for weight in weights:
                weight.requires_grad_()
            found = torch.autograd.grad(model(**one(tokenizer, row)).logits.norm(), weights)
            for weight in weights:
                weight.requires_grad_(False)
            gradients = found[0].T.chunk(3) if fused else found
            for part, gradient in enumerate(gradients):
                for query in range(queries):
                    at = query if part == 0 else query * keys // queries
                    total[part, index, query] += gradient[at * width : (at + 1) * width].norm()
                for group in range(keys):
                    size = width * (queries // keys if part == 0 else 1)
                    of_groups[part, index, group] += gradient[group * size : (group + 1) * size].norm()
    return ((of_groups if unit == "group" else total) / len(rows)).prod(0)


def entropy(model, heads, tokenizer, rows, epsilon, variant, causal=False):
    """Eq. 3 and 18-20 with loops over sentences, layers, heads, queries and columns.

    In a causal model the columns of a query are its own and those before it.
    """
    result = torch.zeros(len(rows), heads.layers, heads.heads * heads.queries, dtype=torch.float64)
    for i, row in enumerate(rows):
        with torch.no_grad():
            attentions = model(**one(tokenizer, row), output_attentions=True).attentions
        for layer, attention in enumerate(attentions):
            for head in range(attention.shape[1]):
                matrix = attention[0, head].tolist()
                total = 0.0
                for position, query in enumerate(matrix):
                    for a in query[: position + 1] if causal else query:
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
        output = model.get_submodule(heads.blocks[row].output)
        columns = output.weight.T if type(output).__name__ == "Conv1D" else output.weight
        with torch.no_grad():
            columns[:, head * heads.width : (head + 1) * heads.width] = 0
