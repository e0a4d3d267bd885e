"""Deliberately naive definitions that the fast code is held to."""

from __future__ import annotations

import copy
import itertools
import math
from unittest import mock

import torch
from torch.nn.functional import cross_entropy

from gnorm.models.slots import eager


def one(tokenizer, row):
    """The row alone as model inputs, no padding."""
    pair = (row["pair"],) if row["pair"] is not None else ()
    return tokenizer(row["text"], *pair, truncation=True, return_tensors="pt")


def gnorm(model, heads, tokenizer, rows, objective="logit_norm", size=1):
    """Eq. 9-17 as written: a full weight gradient for every sentence and projection.

    With `size` above 1, each batch of that many rows has one gradient, as in the notebooks.
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
        with torch.no_grad(), eager(model):
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


def loss(model, tokenizer, row):
    """The loss of the row's class; without a label, the mean loss of predicting each next token."""
    inputs = one(tokenizer, row)
    logits = model(**inputs).logits
    if row["label"] is None:
        return sum(cross_entropy(logits[0, t], inputs["input_ids"][0, t + 1]) for t in range(logits.shape[1] - 1)) / (
            logits.shape[1] - 1
        )
    return cross_entropy(logits, torch.tensor([row["label"]]))


def head_block(heads, kept, row, head):
    """The rows (of Q, K, V) or columns (of O) that a head owns among those kept."""
    position = kept[row].nonzero().flatten().tolist().index(head)
    return slice(position * heads.width, (position + 1) * heads.width)


def magnitude(model, heads):
    kept, result = heads.kept(model), torch.zeros(heads.shape, dtype=torch.float64)
    for row, head in kept.nonzero().tolist():
        block, own = heads.blocks[row], head_block(heads, kept, row, head)
        for name in (block.query, block.key, block.value):
            result[row, head] += model.get_submodule(name).weight[own].square().sum().sqrt()
        result[row, head] += model.get_submodule(block.output).weight[:, own].square().sum().sqrt()
    return result


def grouped_magnitude(model, queries, keys, unit):
    """The same for any projections, by hand, as in `grouped_gnorm`."""
    layers = [module for module in model.modules() if hasattr(module, "c_attn") or hasattr(module, "k_proj")]
    width, slots = model.config.hidden_size // queries, keys if unit == "group" else queries
    result = torch.zeros(len(layers), slots, dtype=torch.float64)
    for index, layer in enumerate(layers):
        if hasattr(layer, "c_attn"):
            q, k, v = layer.c_attn.weight.T.chunk(3)
            o = layer.c_proj.weight.T
        else:
            q, k, v, o = (getattr(layer, f"{name}_proj").weight for name in "qkvo")
        for slot in range(slots):
            size = width * queries // slots  # rows of Q and columns of O
            own, group = slice(slot * size, (slot + 1) * size), slot * keys // slots
            shared = slice(group * width, (group + 1) * width)
            for block in (q[own], k[shared], v[shared], o[:, own]):
                result[index, slot] += math.sqrt(sum(value**2 for value in block.flatten().tolist()))
    return result


def gradient(model, heads, tokenizer, rows, objective):
    """Full weight gradients of every sentence and projection."""
    kept, result = heads.kept(model), torch.zeros(heads.shape, dtype=torch.float64)
    for row in rows:
        for index, block in enumerate(heads.blocks):
            for name in (block.query, block.key, block.value, block.output) if kept[index].any() else ():
                weight = model.get_submodule(name).weight.requires_grad_()
                if objective == "task_loss":
                    value = loss(model, tokenizer, row)
                else:
                    value = model(**one(tokenizer, row)).logits.norm()
                (found,) = torch.autograd.grad(value, weight)
                weight.requires_grad_(False)
                for head in kept[index].nonzero().flatten().tolist():
                    own = head_block(heads, kept, index, head)
                    result[index, head] += (found[:, own] if name == block.output else found[own]).norm()
    return result / len(rows)


def gate_gradients(model, heads, tokenizer, rows):
    """d loss / d gate of every sentence, rows x slots, with real gates of value 1."""
    kept, result = heads.kept(model), torch.zeros(len(rows), *heads.shape, dtype=torch.float64)
    gates = torch.ones(heads.shape, dtype=torch.float64, requires_grad=True)
    handles = [
        model.get_submodule(block.output).register_forward_pre_hook(
            lambda _m, args, row=row: (args[0] * gates[row][kept[row]].repeat_interleave(heads.width),)
        )
        for row, block in enumerate(heads.blocks)
        if kept[row].any()
    ]
    for i, row in enumerate(rows):
        (result[i],) = torch.autograd.grad(loss(model, tokenizer, row), gates)
    for handle in handles:
        handle.remove()
    return result


def attention_products(model, heads, tokenizer, rows):
    """A * dL/dA of every sentence: its sum and the sum of its absolute values, rows x 2 x layers x heads."""
    kept = heads.kept(model)
    result = torch.zeros(len(rows), 2, heads.layers, heads.heads, dtype=torch.float64)
    model.requires_grad_()
    for i, row in enumerate(rows):
        with eager(model):
            made = model(**one(tokenizer, row), output_attentions=True)
        value = cross_entropy(made.logits, torch.tensor([row["label"]]))
        layers = [layer for layer, matrix in enumerate(made.attentions) if matrix.requires_grad]  # those with heads
        found = torch.autograd.grad(value, [made.attentions[layer] for layer in layers], allow_unused=True)
        gradients = dict(zip(layers, found, strict=True))
        for index, block in enumerate(heads.blocks):
            for layer in block.layers if kept[index].any() else ():
                for position, head in enumerate(kept[index].nonzero().flatten().tolist()):
                    product = (made.attentions[layer][0, position] * gradients[layer][0, position]).detach()
                    result[i, :, layer, head] = torch.stack([product.sum(), product.abs().sum()])
    model.requires_grad_(False)
    return result


def attribution(model, heads, tokenizer, rows, steps, objective):
    """Eq. 6 and 7 with the attention matrix itself replaced, sentence by sentence and layer by layer."""
    kept, softmax = heads.kept(model), torch.nn.functional.softmax
    result = torch.zeros(heads.layers, heads.heads, dtype=torch.float64)
    for row, (index, block) in itertools.product(rows, enumerate(heads.blocks)):
        for layer in block.layers if kept[index].any() else ():
            total = 0
            for k in range(1, steps + 1):
                made, calls = [], itertools.count()

                def replaced(scores, *args, made=made, calls=calls, layer=layer, k=k, **kwargs):
                    matrix = softmax(scores, *args, **kwargs)
                    if next(calls) != layer:
                        return matrix
                    made.extend([matrix.detach(), (matrix.detach() * k / steps).requires_grad_()])
                    return made[1]

                with mock.patch("torch.nn.functional.softmax", replaced), eager(model):
                    logits = model(**one(tokenizer, row), output_attentions=True).logits[0]
                assert next(calls) == heads.layers  # one softmax a layer, or this is no oracle
                if objective == "logit_norm":
                    value = logits.norm()
                elif row["label"] is None:
                    following = one(tokenizer, row)["input_ids"][0, 1:]
                    value = torch.exp(-cross_entropy(logits[:-1], following))
                else:
                    value = softmax(logits, dim=-1)[row["label"]]
                total = total + torch.autograd.grad(value, made[1])[0]
            attributed = made[0] * total / steps
            allowed = torch.ones(attributed.shape[2:], dtype=torch.bool)
            allowed = allowed.tril() if heads.causal else allowed
            for position, head in enumerate(kept[index].nonzero().flatten().tolist()):
                own = attributed[0, position * heads.queries : (position + 1) * heads.queries]
                result[layer, head] += max(own[:, allowed].flatten().tolist()) / len(rows)
    return torch.stack([result[list(block.layers)].mean(0) for block in heads.blocks])


class LossWithout:
    """The mean loss of the model with slots really cut out."""

    def __init__(self, model, heads, tokenizer, rows):
        self.model, self.heads, self.tokenizer, self.rows, self.known = model, heads, tokenizer, rows, {}

    def __call__(self, slots):
        from gnorm.models import surgery

        if (key := frozenset(slots)) not in self.known:
            pruned = copy.deepcopy(self.model)
            if key:
                surgery.prune(pruned, self.heads, key)
            with torch.no_grad():
                losses = [loss(pruned, self.tokenizer, row).item() for row in self.rows]
            self.known[key] = sum(losses) / len(losses)
        return self.known[key]


def leave_one_out(model, heads, tokenizer, rows):
    without = LossWithout(model, heads, tokenizer, rows)
    result = torch.zeros(heads.shape, dtype=torch.float64)
    for slot in map(tuple, heads.kept(model).nonzero().tolist()):
        result[slot] = without([slot]) - without([])
    return result


def shapley(model, heads, tokenizer, rows, orders=None):
    """Rises of the loss as heads go, of each order; all orders unless given."""
    without = LossWithout(model, heads, tokenizer, rows)
    slots = [tuple(slot) for slot in heads.kept(model).nonzero().tolist()]
    orders = list(itertools.permutations(slots)) if orders is None else orders
    result = torch.zeros(len(orders), *heads.shape, dtype=torch.float64)
    for i, order in enumerate(orders):
        for turn, slot in enumerate(order):
            result[i][slot] = without(order[: turn + 1]) - without(order[:turn])
    return result


def hard_concrete(case, steps, rate, penalty, seed):
    """Log alphas after `steps` of Adam as its authors write it, a slot and a sentence at a time.

    What a gate does to the loss is found by central differences.
    """
    from gnorm.models.gates import Gates

    kept = [tuple(slot) for slot in case.heads.kept(case.model).nonzero().tolist()]
    generator, alpha = torch.Generator().manual_seed(seed), dict.fromkeys(kept, 2.0)
    first, second = dict.fromkeys(kept, 0.0), dict.fromkeys(kept, 0.0)

    def mean_loss(values):
        with Gates(case.model, case.heads) as gates, torch.no_grad():
            for slot, value in values.items():
                gates.values[slot] = value
            return sum(loss(case.model, case.tokenizer, row).item() for row in case.rows) / len(case.rows)

    def logistic(x):
        return 1 / (1 + math.exp(-x))

    for step in range(1, steps + 1):
        noise = torch.rand(case.heads.shape, generator=generator, dtype=torch.float64)
        soft = {s: logistic((math.log(noise[s] / (1 - noise[s])) + alpha[s]) / (2 / 3)) for s in kept}
        drawn = {s: min(1.0, max(0.0, 1.2 * soft[s] - 0.1)) for s in kept}
        for slot in kept:
            up, down = (mean_loss(drawn | {slot: drawn[slot] + h}) for h in (1e-5, -1e-5))
            inside = 0 < 1.2 * soft[slot] - 0.1 < 1
            through = 1.2 * soft[slot] * (1 - soft[slot]) / (2 / 3) if inside else 0.0
            # The L0 norm of a gate: the chance that 1.2 soft - 0.1 > 0.
            likely = logistic(alpha[slot] - 2 / 3 * math.log(0.1 / 1.1))
            slope = (up - down) / 2e-5 * through + penalty * likely * (1 - likely) / len(kept)
            first[slot] = 0.9 * first[slot] + 0.1 * slope
            second[slot] = 0.999 * second[slot] + 0.001 * slope**2
        for slot in kept:
            mean, square = first[slot] / (1 - 0.9**step), second[slot] / (1 - 0.999**step)
            alpha[slot] -= rate * mean / (math.sqrt(square) + 1e-8)
    result = torch.zeros(case.heads.shape, dtype=torch.float64)
    for slot, value in alpha.items():
        result[slot] = value
    return result
