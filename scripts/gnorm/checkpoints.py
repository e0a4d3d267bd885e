"""Models and tokenizers: load, train, save."""

from __future__ import annotations

import inspect
import math
import random
import time
from collections.abc import Sequence
from pathlib import Path

import safetensors
import torch
import transformers
from torch import nn
from transformers.utils import import_utils

import_utils._sklearn_available = False  # a way of writing text that is not used here would import it: a second a job

from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedTokenizerBase,
)
from transformers.activations import NewGELUActivation
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from gnorm import UserError
from gnorm.batches import encode, labels, make
from gnorm.devices import device, repeatably
from gnorm.files import atomic
from gnorm.heads import head_map
from gnorm.logs import log
from gnorm.numbers import NotFinite, check_logits
from gnorm.rows import NO_CLASS
from gnorm.state import State

TRANSFORMERS = transformers.__version__
SAVE_SECONDS = 30  # how much training may be lost within an epoch
CLASSES = {"classification": AutoModelForSequenceClassification, "language_model": AutoModelForCausalLM}

# Families that are trained as language models: what they call the size of the feed-forward layer, and what else is set.
DECODERS = {
    "gpt2": ("n_inner", {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}),
    "llama": ("intermediate_size", {}),
}

# What families call the rate of dropout: in layers, of attention, of what is put on top to classify.
DROPOUTS = (
    *("hidden_dropout_prob", "dropout", "resid_pdrop", "embd_pdrop"),
    *("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop"),
    *("classifier_dropout", "classifier_dropout_prob", "seq_classif_dropout"),
)

transformers.logging.set_verbosity_error()  # its advice on faster padding would fill the logs


def task_of(model: nn.Module | PretrainedConfig) -> str:
    """What a model, or one saved with this configuration, was made for."""
    kinds = [type(model).__name__] if isinstance(model, nn.Module) else model.architectures or []
    return "language_model" if {*kinds} & {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()} else "classification"


def load(
    folder: str | Path, attention: str = "sdpa", on: torch.device | str | None = None
) -> tuple[nn.Module, PreTrainedTokenizerBase]:
    """A frozen model in evaluation mode, on the device there is unless told otherwise, and its tokenizer."""
    config = _configuration(folder)
    auto = CLASSES[task_of(config)]
    kind = auto._model_mapping.get(type(config), None)
    if attention == "sdpa" and not getattr(kind, "_supports_sdpa", True):
        attention = "eager"
    model, new = _from_folder(auto, folder, attn_implementation=attention)
    if new:
        raise UserError(_incomplete(folder, config, new))
    tokenizer = load_tokenizer(folder)
    fit(model, tokenizer, str(folder))
    return fuse(model).to(on or device()).eval().requires_grad_(False), tokenizer


def _configuration(folder: str | Path) -> PretrainedConfig:
    if not Path(folder, "config.json").exists():
        raise UserError(f"{folder} holds no model saved by save_pretrained (config.json is missing)")
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a damaged file raises whatever its reader makes of it
        raise UserError(_unreadable(Path(folder), error)) from error


def _from_folder(auto: type, folder: str | Path, **options) -> tuple[nn.Module, list[str]]:
    """A saved model, and the names of its weights that the folder lacks or has in another shape: they are random.

    What is tied to a weight that is there counts as being there.
    """
    try:
        model, found = auto.from_pretrained(
            folder,
            ignore_mismatched_sizes=True,  # or the error would not name the weight
            output_loading_info=True,
            local_files_only=True,
            trust_remote_code=False,
            **options,
        )
    except Exception as error:  # a damaged file raises whatever its reader makes of it
        raise UserError(_unreadable(Path(folder), error)) from error
    lacking = {*found["missing_keys"], *found["mismatched_keys"]}
    return model, [name for name, _ in model.named_parameters() if name in lacking]


def _incomplete(folder: str | Path, config: PretrainedConfig, new: list[str]) -> str:
    """Why a checkpoint is not taken with random weights in place of those it does not have."""
    kind = f" (saved as {config.architectures[0]})" if config.architectures else ""
    remedy = "take a checkpoint that has them"
    if task_of(config) == "classification":
        remedy = "take a checkpoint fine-tuned for classification, or train them with `source: finetune`"
    return f"{folder} has no weights of the right shape for {_listed(new)}{kind}: {remedy}"


def _listed(names: list[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def fit(model: nn.Module, tokenizer: PreTrainedTokenizerBase, where: str = "the model") -> None:
    """Make a tokenizer give what the model takes, and let the model keep no keys and values."""
    agree(model, tokenizer, where, any_padding=task_of(model) == "language_model")
    if getattr(model.config, "use_cache", False):  # they are for generating text
        model.config.use_cache = False


def agree(model: nn.Module, tokenizer: PreTrainedTokenizerBase, where: str, any_padding: bool) -> None:
    """Make a tokenizer give what the model takes, in length, inputs and padding.

    `any_padding` says that any token will do where none is named: a language model neither reads nor predicts
    padding, and a classifier that is yet to be trained learns with whatever it is.
    """
    tokenizer.model_max_length = min(tokenizer.model_max_length, positions(model))
    taken = inspect.signature(model.forward).parameters
    tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name in taken]
    if tokenizer.pad_token_id is None:
        if model.config.pad_token_id is None and any_padding:
            model.config.pad_token_id = tokenizer.eos_token_id or 0
        if model.config.pad_token_id is None:
            raise UserError(
                f"{where} has no padding token: set `pad_token` of its tokenizer and `pad_token_id` of its "
                "configuration to the one it was trained with, and save both again"
            )
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(model.config.pad_token_id)
    # A decoder classifies by the last token that is not this one.
    model.config.pad_token_id = tokenizer.pad_token_id


def load_plain(folder: str | Path) -> nn.Module:
    """A model as anyone with transformers alone loads it."""
    auto = CLASSES[task_of(AutoConfig.from_pretrained(folder, local_files_only=True))]
    return auto.from_pretrained(folder, local_files_only=True).eval()


def fuse(model: nn.Module) -> nn.Module:
    """ALBERT's activation as the one kernel that torch has for the same function, an eighth of its time saved."""
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, NewGELUActivation):
                setattr(module, name, nn.GELU(approximate="tanh"))
    return model


def _unreadable(folder: Path, error: Exception) -> str:
    """Which file of a checkpoint is damaged, if one of the weights is."""
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safetensors.safe_open(path, "pt"):
                pass
        except Exception as damage:
            return f"{path} is damaged or cut short ({damage}): copy or download it again"
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return f"the model in {folder} cannot be loaded ({reason})"


def load_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"the tokenizer in {folder} cannot be loaded ({reason})") from error


def positions(model: nn.Module) -> int:
    """How many tokens the model can place; a table with a padding index starts after it."""
    tables = [m for name, m in model.named_modules() if name.endswith("position_embeddings")]
    if not tables:  # rotary, or by another name
        return getattr(model.config, "max_position_embeddings", int(1e9))
    return min(table.num_embeddings - (-1 if table.padding_idx is None else table.padding_idx) - 1 for table in tables)


def save(folder: str | Path, model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> None:
    if task_of(model) == "language_model":
        model.config.use_cache = True  # for whoever generates text with it
    with atomic(folder) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)


def check_task(model: nn.Module, task: str, classes: Sequence[str]) -> None:
    """Whether a model from outside is one for the suite's task and classes."""
    if task_of(model) != task:
        raise UserError(
            f"the model is a {type(model).__name__}: set `task: {task_of(model)}` of its entry in the suite, "
            f"or take a checkpoint for {task}"
        )
    if task == "classification":
        check_classes(model, classes)


def check_classes(model: nn.Module, classes: Sequence[str]) -> None:
    if model.config.num_labels != len(classes):
        raise UserError(
            f"the model has {model.config.num_labels} classes, the dataset lists {len(classes)} "
            f"({', '.join(classes)}): put `classes:` in the order of the model's outputs"
        )


def train(
    entry: dict,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[dict],
    classes: Sequence[str],
    seed: int,
    state: State | None = None,
) -> nn.Module:
    """A model of the suite entry's architecture, trained from scratch on `rows`: a classifier, or a decoder."""
    _seeded(seed)
    if entry["family"] in DECODERS:
        model = AutoModelForCausalLM.from_config(_decoder(entry, tokenizer))
        return _fit(model, entry, tokenizer, rows, seed, state)
    offset = tokenizer.pad_token_id + 1  # RoBERTa's positions start after the padding id
    config = AutoConfig.for_model(
        entry["family"],
        vocab_size=len(tokenizer),
        hidden_size=entry["width"],
        num_hidden_layers=entry["layers"],
        num_attention_heads=entry["heads"],
        intermediate_size=entry["feed_forward"],
        max_position_embeddings=tokenizer.model_max_length + offset,
        **_labels(classes),
        hidden_act="gelu",  # ALBERT's own gelu_new takes twice as long and changes nothing here
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout_prob=0.0,
        initializer_range=0.05,  # 0.02 is meant for widths near 768
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        type_vocab_size=2,
        **({"embedding_size": entry["width"]} if entry["family"] == "albert" else {}),
    )
    return _fit(AutoModelForSequenceClassification.from_config(config), entry, tokenizer, rows, seed, state)


def _decoder(entry: dict, tokenizer: PreTrainedTokenizerBase) -> PretrainedConfig:
    feed_forward, others = DECODERS[entry["family"]]
    if entry.get("key_heads"):
        others = others | {"num_key_value_heads": entry["key_heads"]}
    return AutoConfig.for_model(
        entry["family"],
        vocab_size=len(tokenizer),
        hidden_size=entry["width"],
        num_hidden_layers=entry["layers"],
        num_attention_heads=entry["heads"],
        max_position_embeddings=tokenizer.model_max_length,
        initializer_range=0.05,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **{feed_forward: entry["feed_forward"]},
        **others,
    )


def finetune(
    entry: dict,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[dict],
    classes: Sequence[str],
    seed: int,
    state: State | None = None,
) -> nn.Module:
    """The pretrained model of the suite entry with a new classification head, all of it trained on `rows`."""
    _seeded(seed)
    folder = entry["from"]["path"]
    config = _configuration(folder)
    model, new = _from_folder(  # a head for other classes than these is replaced too
        AutoModelForSequenceClassification,
        folder,
        **_labels(classes),
        **{name: entry["dropout"] for name in DROPOUTS if hasattr(config, name)},
    )
    if lost := [name for name in new if name.startswith(_body(model))]:
        raise UserError(
            f"{folder} has no weights of the right shape for {_listed(lost)}: it is not a pretrained encoder or decoder"
        )
    agree(model, tokenizer, folder, any_padding=True)
    log.info("new weights: %s", ", ".join(new))
    return _fit(model, entry, tokenizer, rows, seed, state)


def _body(model: nn.Module) -> tuple[str, ...]:
    """How the names of weights begin that only pretraining gives: those of the embedding and of the layers."""
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
    """`model` trained on `rows` for the entry's epochs, with a rate that rises for a tenth of the steps and then falls.

    `state` takes the training after each epoch, and within long ones now and then; one that was interrupted
    goes on from there to the same weights.
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
    """The loss of a batch and the norm of its gradient, which is left in the weights, cut to 1; the host waits once."""
    logits = model(**inputs).logits
    loss = nn.functional.cross_entropy(logits.flatten(0, -2), wanted.flatten(), ignore_index=NO_CLASS)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return tuple(torch.stack([loss.detach(), norm]).tolist())


def _diverged(model, tokenizer, rows, chosen, step, loss) -> Exception:
    """The row and the head that a loss fails at."""
    try:
        for batch in make(tokenizer, [rows[i] for i in chosen], 1):  # one row each
            with torch.no_grad():
                check_logits(model, head_map(model), batch, model(**batch.to(model.device).inputs).logits)
    except NotFinite as error:
        return NotFinite(f"training step {step + 1}: the loss is {loss}: {error}; lower `rate`")
    return NotFinite(f"training step {step + 1}: the loss is {loss}; lower `rate`")
