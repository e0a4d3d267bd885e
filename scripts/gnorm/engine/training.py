"""Training: a small model from scratch, or a pretrained one with a new classifier."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PreTrainedTokenizerBase,
)

from gnorm import families
from gnorm.data.rows import NO_CLASS
from gnorm.devices import device, repeatably
from gnorm.engine.batches import encode, labels, make
from gnorm.engine.finite import NotFinite, check_logits
from gnorm.errors import UserError
from gnorm.logs import log
from gnorm.models import checkpoints
from gnorm.models.heads import head_map
from gnorm.resume import State

SAVE_SECONDS = 30  # of training that may be lost within an epoch

# Names of the dropout rate in different families: in layers, in attention, in the classifier on top.
DROPOUTS = (
    *("hidden_dropout_prob", "dropout", "resid_pdrop", "embd_pdrop"),
    *("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop"),
    *("classifier_dropout", "classifier_dropout_prob", "seq_classif_dropout"),
)


def train(
    entry: dict,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[dict],
    classes: Sequence[str],
    seed: int,
    state: State | None = None,
) -> nn.Module:
    """Train a model of the suite entry's family and sizes from scratch on `rows`: a classifier, or a decoder."""
    _seeded(seed)
    family = families.load(entry["family"])
    auto = AutoModelForCausalLM if family.decoder else AutoModelForSequenceClassification
    model = auto.from_config(AutoConfig.for_model(family.name, **_configuration(entry, family, tokenizer, classes)))
    return _fit(model, entry, tokenizer, rows, seed, state)


def _configuration(
    entry: dict, family: families.Family, tokenizer: PreTrainedTokenizerBase, classes: Sequence[str]
) -> dict:
    """The configuration of a model that is trained from scratch."""
    # An encoder's positions may start after the padding id.
    positions = tokenizer.model_max_length + (0 if family.decoder else tokenizer.pad_token_id + 1)
    sizes = entry | {"vocabulary": len(tokenizer), "positions": positions}
    return {
        **{name: sizes[key] for key, name in family.dimensions.items()},
        **({family.embedding: entry["width"]} if family.embedding else {}),
        **({family.key_heads: entry["key_heads"]} if entry.get("key_heads") and family.grouped else {}),
        **family.scratch.settings,
        **({} if family.decoder else _labels(classes)),
        "initializer_range": 0.05,  # 0.02 is meant for widths near 768
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }


def finetune(
    entry: dict,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[dict],
    classes: Sequence[str],
    seed: int,
    state: State | None = None,
) -> nn.Module:
    """Train all of the pretrained model in the entry's `path`, with a new classification head, on `rows`."""
    _seeded(seed)
    folder = entry["path"]
    config = checkpoints.configuration(folder)
    model, new = checkpoints.from_folder(  # a head for other classes than these is replaced too
        AutoModelForSequenceClassification,
        folder,
        **_labels(classes),
        **{name: entry["dropout"] for name in DROPOUTS if hasattr(config, name)},
    )
    if lost := [name for name in new if name.startswith(_body(model))]:
        lacks = f"{folder} has no weights of the right shape for {checkpoints.listed(lost)}"
        raise UserError(f"{lacks}: it is not a pretrained encoder or decoder")
    checkpoints.agree(model, tokenizer, folder, any_padding=True)
    log.info("new weights: %s", ", ".join(new))
    return _fit(model, entry, tokenizer, rows, seed, state)


def _body(model: nn.Module) -> tuple[str, ...]:
    """The beginnings of the names of pretrained weights: those of the embedding and of the layers."""
    words = model.get_input_embeddings()
    return tuple(f"{name}." for name, m in model.named_modules() if m is words or isinstance(m, nn.ModuleList))


def _seeded(seed: int) -> None:
    torch.manual_seed(seed)
    if device().type == "cpu":  # on a GPU, `device` sees to it for every job
        torch.use_deterministic_algorithms(True)


def _labels(classes: Sequence[str]) -> dict:
    return {"id2label": dict(enumerate(classes)), "label2id": {name: i for i, name in enumerate(classes)}}


def _fit(
    model: nn.Module,
    entry: dict,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[dict],
    seed: int,
    state: State | None,
) -> nn.Module:
    """Train `model` on `rows` for the entry's epochs, with a rate that rises for a tenth of the steps and then falls.

    Saves its progress in `state` after each epoch, and from time to time within long ones. An interrupted training
    continues from there and ends with the same weights.
    """
    model = model.to(device()).train()
    encoded = encode(tokenizer, rows)
    size, epochs = entry["batch"], entry["epochs"]
    each = -(-len(rows) // size)  # steps of an epoch
    steps = epochs * each
    warm = max(1, steps // 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=entry["rate"], weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
    )
    past, total = 0, 0.0
    if stored := state.load() if state else None:
        past, total = stored["step"], stored["total"]
        for part, name in ((model, "model"), (optimizer, "optimizer"), (schedule, "schedule")):
            part.load_state_dict(stored[name])
        torch.set_rng_state(stored["drawn"])  # of dropout
        if model.device.type == "cuda":
            torch.cuda.set_rng_state(stored["drawn_there"], model.device)
        log.info("training goes on after step %d of %d", past, steps)

    def save(step: int) -> None:
        parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
        value = {"step": step, "total": total, **{name: part.state_dict() for name, part in parts.items()}}
        value["drawn"] = torch.get_rng_state()
        if model.device.type == "cuda":
            value["drawn_there"] = torch.cuda.get_rng_state(model.device)
        state.save(value)

    shuffle, order = random.Random(seed), list(range(len(rows)))
    began = saved = time.monotonic()
    for step in range(steps):
        epoch, first = step // each, step % each * size
        if not first:
            shuffle.shuffle(order)
        if step < past:
            continue
        chosen = order[first : first + size]
        inputs = tokenizer.pad([encoded[i] for i in chosen], padding_side="right", return_tensors="pt")
        wanted = labels([rows[i] for i in chosen], inputs).to(model.device, non_blocking=True)
        inputs = {name: value.to(model.device, non_blocking=True) for name, value in inputs.items()}
        loss, norm = repeatably(lambda inputs=inputs, wanted=wanted: _losses(model, optimizer, inputs, wanted))
        if not math.isfinite(loss):
            raise _diverged(model, tokenizer, rows, chosen, step, loss)
        if not math.isfinite(norm):
            name = next(
                name for name, p in model.named_parameters() if p.grad is not None and not p.grad.isfinite().all()
            )
            raise NotFinite(f"training step {step + 1}: the gradient of {name} is not finite; lower `rate`")
        optimizer.step()
        schedule.step()
        total += loss * len(chosen)
        now, ended = time.monotonic(), (step + 1) % each == 0
        if ended:
            left = (now - began) / (step + 1 - past) * (steps - step - 1)
            log.info("epoch %d/%d, loss %.4f, about %.0f s left", epoch + 1, epochs, total / len(rows), left)
            total = 0.0
        if state and (ended or now - saved > SAVE_SECONDS):
            save(step + 1)
            saved = time.monotonic()
    return model.eval().requires_grad_(False)


def _losses(model, optimizer, inputs, wanted) -> tuple[float, float]:
    """The loss of a batch and the norm of its gradient, which is clipped to 1 in the weights; the host waits once."""
    logits = model(**inputs).logits
    loss = nn.functional.cross_entropy(logits.flatten(0, -2), wanted.flatten(), ignore_index=NO_CLASS)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return tuple(torch.stack([loss.detach(), norm]).tolist())


def _diverged(model, tokenizer, rows, chosen, step, loss) -> Exception:
    """Make an error that names the row and the head where the loss stops being finite."""
    try:
        for batch in make(tokenizer, [rows[i] for i in chosen], 1):  # one row each
            with torch.no_grad():
                check_logits(model, head_map(model), batch, model(**batch.to(model.device).inputs).logits)
    except NotFinite as error:
        return NotFinite(f"training step {step + 1}: the loss is {loss}: {error}; lower `rate`")
    return NotFinite(f"training step {step + 1}: the loss is {loss}; lower `rate`")
