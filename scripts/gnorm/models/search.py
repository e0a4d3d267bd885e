"""The heads of an unknown architecture: guessed by name and shape, or described, and used only after checks.

Guessing is easy and often wrong: Q, K and V may be interleaved in one projection, or a layer may run
twice. So every guess is run. Each head that is tried must respond to its own blocks of W_Q, W_K and W_V and
to no others. Closing its gate and cutting it out must give the same outputs as zeroing its columns of W_O.
"""

from __future__ import annotations

import copy
import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from gnorm.errors import UserError
from gnorm.logs import log
from gnorm.models import surgery
from gnorm.models.heads import PARTS, Block, HeadMap, prune_by, slots_of
from gnorm.models.slots import eager, reused, uncached
from gnorm.models.versions import asking_for_attention

NAMES = {
    "query": ("q", "query", "q_proj", "q_lin", "query_proj", "wq", "to_q"),
    "key": ("k", "key", "k_proj", "k_lin", "key_proj", "wk", "to_k"),
    "value": ("v", "value", "v_proj", "v_lin", "value_proj", "wv", "to_v"),
    "fused": ("c_attn", "qkv", "qkv_proj", "query_key_value", "Wqkv", "wqkv", "in_proj", "qkv_lin"),
    "output": ("o", "o_proj", "out_proj", "out_lin", "out", "wo", "c_proj", "dense", "proj", "to_out", "output"),
}
REPEATS = ("num_key_value_groups", "n_rep")
# Attributes that do not change with the number of heads, though they may equal it.
WIDTHS = r"((?!all_)\w+_)?head_(dim|size|width)|(dim|size|width)_(per_)?head|d_head|d_kv|key_value_proj_dim"
TRIED = 6  # heads of a layer, and layers, at most
HELP = (
    "describe it in a HeadMap: of each layer the names of its attention module and of its projections of Q, K, V "
    "and O, the number of heads and their width; heads.keep(model, heads) and model.save_pretrained(folder) give it to "
    "the workflow (docs/models.md)"
)


def find(model: nn.Module) -> HeadMap:
    """Find and check the map of a HuggingFace model's heads; a `UserError` says what is missing or wrong."""
    kind = model.config.model_type
    try:
        if getattr(model.config, "is_encoder_decoder", False):
            raise NotFound("it has an encoder and a decoder")
        heads = check(model, _guess(model), _row(model))
    except NotFound as error:
        raise UserError(f"no head map for model type {kind!r}, and a search found none: {error}; {HELP}") from error
    rows, count = heads.shape
    log.info("model type %s: %d x %d heads of width %d, found by search and checked", kind, rows, count, heads.width)
    return heads


def confirm(model: nn.Module, heads: HeadMap) -> HeadMap:
    """Check the map that came with a HuggingFace model; a `UserError` says what is wrong."""
    try:
        heads = check(model, heads, _row(model))
    except NotFound as error:
        raise UserError(
            f"head_map in config.json does not hold: {error}; correct it and save the model again, or remove it there"
        ) from error
    log.info("%d x %d heads of width %d, as config.json has them, checked", *heads.shape, heads.width)
    return heads


def gives_attention(model: nn.Module, heads: HeadMap) -> bool:
    """Whether every attention module returns its matrices second when asked for them, as criteria read them."""
    inputs, fitting = _row(model), []
    size = (1, heads.heads * heads.queries, *2 * inputs["input_ids"].shape[1:])

    def look(_module, _args, output):
        matrix = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        fitting.append(isinstance(matrix, torch.Tensor) and matrix.shape == size)

    handles = [model.get_submodule(block.attention).register_forward_hook(look) for block in heads.blocks]
    try:
        with eager(model):
            _logits(model, inputs | asking_for_attention(model))
    finally:
        for handle in handles:
            handle.remove()
    return all(fitting)


def run(model: nn.Module) -> torch.Tensor:
    """Run a model once, on two tokens: whatever is wrong with its settings shows then."""
    return _logits(model, {name: values[:, :2] for name, values in _row(model).items()})


def _row(model: nn.Module) -> dict[str, torch.Tensor]:
    """Make a row of tokens to run a model on."""
    vocabulary = getattr(model.config, "vocab_size", None)
    if vocabulary is None:
        raise UserError(
            f"a model of type {model.config.model_type!r} reads no text (its configuration has no vocab_size): only "
            "models that read tokens can be scored"
        )
    ids = torch.randint(vocabulary, (1, 9), generator=torch.Generator().manual_seed(0)).to(model.device)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


class NotFound(Exception):
    """Raised with the reason why a model's heads are not known."""


def _guess(model: nn.Module) -> HeadMap:
    """Guess the map from names and shapes alone."""
    config = model.config
    count = getattr(config, "num_attention_heads", None)
    if not count:
        raise NotFound("its configuration has no num_attention_heads")
    candidates = [block for name, module in model.named_modules() if (block := _block(model, name, module, count))]
    if not candidates:
        raise NotFound("no module has children that look like projections of Q, K and V, with one of O nearby")
    shapes = {(queries, keys) for _, queries, keys in candidates}
    if len(shapes) > 1:
        raise NotFound(f"layers differ in their Q and K sizes: {sorted(shapes)}")
    ((queries, keys),) = shapes
    width = queries // count
    if keys % width or count % (keys // width):
        raise NotFound(f"{keys} columns of K are no number of heads of width {width} that divides {count}")
    blocks = tuple(replace(block, layers=(i,)) for i, (block, *_) in enumerate(candidates))
    slots = slots_of(count, keys // width, width, prune_by(model))
    attention = model.get_submodule(blocks[0].attention)
    repeats = next((name for name in REPEATS if hasattr(attention, name)), "")
    if slots.get("share", 1) > 1 and not repeats:
        raise NotFound(f"{blocks[0].attention} has none of {', '.join(REPEATS)}: prune_by: group may do")
    return HeadMap(blocks, hidden=config.hidden_size, repeats=repeats, **slots)


def _block(model: nn.Module, name: str, module: nn.Module, count: int) -> tuple[Block, int, int] | None:
    """Describe the attention module called `name`, and count its columns of Q and of K; None if it is not one."""
    own = {child: m for child, m in module.named_children() if isinstance(m, (nn.Linear, Conv1D))}
    names = {part: next((n for n in NAMES[part] if n in own), None) for part in ("query", "key", "value", "fused")}
    if all(names[part] for part in ("query", "key", "value")):
        queries, keys, values = (surgery.columns_of(own[names[part]]) for part in ("query", "key", "value"))
        if keys != values:
            return None
        sources = [f"{name}.{names[part]}" for part in ("query", "key", "value")]
        output = _output(model, name, queries)
    elif names["fused"]:
        # Q has as many columns as O takes; K and V share the rest.
        everything = surgery.columns_of(own[names["fused"]])
        output = _output(model, name, None)
        queries = surgery.columns_of(model.get_submodule(output), outputs=False) if output else 0
        keys = (everything - queries) // 2
        if keys <= 0 or queries + 2 * keys != everything:
            return None
        sources = 3 * [f"{name}.{names['fused']}"]
    else:
        return None
    if output is None or queries % count:
        return None
    return Block(name, *sources, output, layers=()), queries, keys


def _output(model: nn.Module, name: str, size: int | None) -> str | None:
    """Name the projection of O: in the attention module, or beside it."""
    parent = name.rpartition(".")[0]
    for place in (name, parent):
        for inner, module in model.get_submodule(place).named_modules():
            full = f"{place}.{inner}"
            beside = place == name or not full.startswith(f"{name}.")
            words = inner.split(".")
            if (
                beside
                and isinstance(module, (nn.Linear, Conv1D))
                and (len(words) == 1 or place == parent)
                and words[-1] in NAMES["output"]
                and (size is None or surgery.columns_of(module, outputs=False) == size)
            ):
                return full
    return None


def check(model: nn.Module, heads: HeadMap, inputs: dict[str, torch.Tensor]) -> HeadMap:
    """Complete the map by running the model; raises `NotFound` with the first defect.

    `inputs` are a row of several tokens, without padding.
    """
    _check_names(model, heads)
    try:
        runs = _watched(model, [block.output for block in heads.blocks], inputs)
    except Exception as error:
        raise NotFound(f"it does not run on token ids alone ({_line(error)})") from error
    for row, of_row in enumerate(runs):
        if len(of_row) != len(heads.blocks[row].layers):
            raise NotFound(f"{heads.blocks[row].output} runs {len(of_row)} times, not {len(heads.blocks[row].layers)}")
        if of_row[0].shape[-1] != heads.heads * heads.width:
            raise NotFound(f"{heads.blocks[row].output} takes {of_row[0].shape[-1]} columns, not those of the heads")
    _check_layers(model, heads, inputs)
    _check_inputs(model, heads, inputs)
    rows, slots = _spaced(len(heads.blocks)), _spaced(heads.heads)
    for row in rows:
        for slot in slots:
            _check_own_blocks(model, heads, inputs, runs, row, slot)
            _check_gate(model, heads, inputs, row, slot)
    heads = replace(heads, causal=_is_causal(model, heads, inputs, runs))
    heads = _structural(model, heads, inputs, [(row, slot) for row in rows for slot in slots])
    _try(model, heads, inputs)
    return heads


def _try(model, heads: HeadMap, inputs) -> None:
    """Score the model, prune it and build it again, as the workflow will."""
    # Loaded by name: a checkpoint does not depend on how it is scored, and is not made again when that changes.
    tried = importlib.import_module("gnorm.pruning.tried")
    try:
        tried.run(model, heads, inputs, isinstance(model, PreTrainedModel) and gives_attention(model, heads))
    except Exception as error:
        raise NotFound(f"its heads can be cut out, but not scored and loaded again ({_line(error)})") from error


def _spaced(count: int) -> list[int]:
    return sorted({round(i * (count - 1) / (TRIED - 1)) for i in range(TRIED)})


def _logits(model: nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad(), uncached(model):
        output = model(**inputs)
    return output.logits if hasattr(output, "logits") else output[0]


def _watched(model: nn.Module, names: list[str], inputs: dict[str, torch.Tensor]) -> list[list[torch.Tensor]]:
    """Record the input of each module in each of its runs."""
    seen: list[list[torch.Tensor]] = [[] for _ in names]
    handles = [
        model.get_submodule(name).register_forward_pre_hook(lambda _m, args, own=own: own.append(args[0]))
        for name, own in zip(names, seen, strict=True)
    ]
    try:
        _logits(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    return seen


@contextmanager
def _scaled(model: nn.Module, heads: HeadMap, row: int, part: str, slot: int, factor: float) -> Iterator[None]:
    """Multiply a slot's rows of W_Q, W_K or W_V and their biases, or its columns of W_O, by `factor`."""
    block, index = heads.blocks[row], PARTS.index(part)
    module = model.get_submodule(getattr(block, part))
    shared = part in ("key", "value")
    width = heads.key_width if shared else heads.width
    first = (slot // heads.share if shared else slot) * width
    if block.fused and part != "output":
        first += sum(heads.sizes(torch.ones(heads.heads, dtype=torch.bool))[:index])
    rows_first = isinstance(module, Conv1D) == (part == "output")
    views = [(module.weight.data if rows_first else module.weight.data.T)[first : first + width]]
    if part != "output" and module.bias is not None:
        views.append(module.bias.data[first : first + width])
    before = [view.clone() for view in views]
    for view in views:
        view.mul_(factor)
    try:
        yield
    finally:
        for view, old in zip(views, before, strict=True):
            view.copy_(old)


def _check_names(model, heads: HeadMap) -> None:
    modules = dict(model.named_modules())
    for block in heads.blocks:
        for name in (block.attention, *block.projections, block.output):
            if name not in modules:
                raise NotFound(f"it has no module {name}")
        for name in (*block.projections, block.output):
            if not isinstance(modules[name], (nn.Linear, Conv1D)):
                raise NotFound(f"{name} is a {type(modules[name]).__name__}, not a linear layer")
        if (columns := surgery.columns_of(modules[block.output])) != heads.hidden:
            raise NotFound(f"{block.output} gives {columns} columns, not the {heads.hidden} of `hidden`")
    if wrong := [name for name in heads.layer_names if name not in modules]:
        raise NotFound(f"it has no module {wrong[0]}, which `layer_names` lists")


def _check_layers(model, heads: HeadMap, inputs) -> None:
    """Check that stored outputs can replace layers, as evaluation does where each layer has its own weights."""
    if len(heads.layer_names) != heads.layers:
        return
    for block in heads.blocks:
        layer = heads.layer_names[block.layers[0]]
        if not block.output.startswith(f"{layer}."):
            raise NotFound(f"`layer_names` are no layers in their order: {layer} does not hold {block.output}")
    stored: dict[int, torch.Tensor] = {}
    inner = range(heads.layers - 1)
    with reused(model, heads, stored, inner):
        expected = _logits(model, inputs)
    try:
        with reused(model, heads, stored, inner):
            again = _logits(model, inputs)
    except Exception as error:
        raise NotFound(f"`layer_names` are no layers that return (hidden states, ...) ({_line(error)})") from error
    if not _same(again, expected):
        raise NotFound("`layer_names` are no layers: what they gave before, put in their place, gives other outputs")


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _check_inputs(model, heads: HeadMap, inputs) -> None:
    """Check that Q, K and V have the same inputs, which gradient scores rely on."""
    for block in heads.blocks:
        names = [name for name, _ in block.sources]
        given = _watched(model, names, inputs)
        for name, runs in zip(names, given, strict=True):
            if len(runs) != len(block.layers):
                raise NotFound(f"{name} runs {len(runs)} times, not {len(block.layers)}")
            if not all(torch.equal(a, b) for a, b in zip(runs, given[0], strict=True)):
                raise NotFound(f"{name} is given something else than {names[0]}")


def _check_own_blocks(model, heads: HeadMap, inputs, runs, row: int, slot: int) -> None:
    """Check that blocks of Q, K and V move the columns of their own heads, all users of a shared one, and no others.

    Where layers share the block, only the first is checked: the later ones then have other inputs.
    """
    users = range(slot - slot % heads.share, slot - slot % heads.share + heads.share)
    before = runs[row][0]
    scale = before.abs().max()
    where = f"head {slot} of {heads.blocks[row].attention}"
    for part, factor in (("query", -1.0), ("key", -1.0), ("value", 0.0)):
        with _scaled(model, heads, row, part, slot, factor):
            after = _watched(model, [heads.blocks[row].output], inputs)[0][0]
        change = (after - before).abs().amax((0, 1)).view(heads.heads, heads.width).amax(1)
        moved = {int(i) for i in (change > 1e-5 * scale).nonzero().flatten()}
        wanted = {slot} if part == "query" else set(users)
        if moved != wanted:
            raise NotFound(f"the {part} block of {where} moves what heads {sorted(moved)} give, not {sorted(wanted)}")
        if part == "value":
            own = after.unflatten(-1, (heads.heads, heads.width))[..., list(users), :]
            if own.abs().max() > 1e-5 * scale:
                raise NotFound(f"{where} gives something without its value block")


def _check_gate(model, heads: HeadMap, inputs, row: int, slot: int) -> None:
    with surgery.gated(model, heads, [(row, slot)]):
        gated = _logits(model, inputs)
    with _scaled(model, heads, row, "output", slot, 0.0):
        zeroed = _logits(model, inputs)
    if not _same(gated, zeroed):
        raise NotFound(f"gating head {slot} of {heads.blocks[row].attention} is not zeroing its columns of W_O")


def _same(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool((actual - expected).abs().max() <= 1e-4 * expected.abs().max())


def _is_causal(model, heads: HeadMap, inputs, runs) -> bool:
    """Whether the heads' output at the first token does not depend on the last token."""
    ids = inputs["input_ids"].clone()
    ids[:, -1] = torch.where(ids[:, -1] == ids.max(), ids.min(), ids.max())
    ((other, *_),) = _watched(model, [heads.blocks[0].output], {**inputs, "input_ids": ids})
    return bool(torch.equal(other[:, 0], runs[0][0][:, 0]))


def _structural(model, heads: HeadMap, inputs, slots: list[tuple[int, int]]) -> HeadMap:
    """Add to the map which attributes of the attention module pruning must change: those it lists, or by trying.

    Attributes that equal the number of heads or of columns may have to shrink with them, or may mean
    something else.
    """
    counts, sizes = numbers(model, heads)
    cases = [[slot] for slot in (slots[0], slots[-1])]
    cases += [[(slots[-1][0], head) for head in range(heads.heads)], slots]
    guesses = [*([dict(heads.counts)] if heads.counts else []), counts | sizes, counts, sizes, {}]
    reasons = []
    for guess in guesses:
        trial = replace(heads, counts=guess)
        reason = next(filter(None, (_miscut(model, trial, inputs, case) for case in cases)), None)
        if reason is None:
            return trial
        reasons.append(reason)  # the first reason is that of the likeliest guess
    raise NotFound(f"heads cannot be cut out of {heads.blocks[0].attention} with the same outputs ({reasons[0]})")


def numbers(model: nn.Module, heads: HeadMap) -> tuple[dict[str, int], dict[str, int]]:
    """Attributes of an unpruned model's attention module that equal its number of heads, and of columns."""
    attention = model.get_submodule(heads.blocks[0].attention)
    other = re.compile("|".join((*REPEATS, WIDTHS)))
    known = {n: v for n, v in vars(attention).items() if type(v) is int and v > 1 and not other.fullmatch(n)}
    heads_there, columns = heads.heads * heads.queries, heads.heads * heads.width
    keys = heads.heads // heads.share
    counts = {n: heads.queries for n, v in known.items() if v == heads_there}
    if heads.share == 1:
        counts |= {n: 1 for n, v in known.items() if v == keys and n not in counts}
    return counts, {n: heads.width for n, v in known.items() if v == columns}


def _miscut(model, heads: HeadMap, inputs, slots: list[tuple[int, int]]) -> str | None:
    """Describe what goes wrong when slots are cut out; None if nothing does."""
    with surgery.gated(model, heads, slots):
        expected = _logits(model, inputs)
    cut = copy.deepcopy(model)
    try:
        surgery.prune(cut, heads, slots)
        actual = _logits(cut, inputs)
    except Exception as error:  # any error that this model raises on tensors that do not fit
        return _line(error)
    return None if _same(actual, expected) else f"without {slots} they are {(actual - expected).abs().max():.2g} apart"
