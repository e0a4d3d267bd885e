"""Models and tokenizers: load and save."""

from __future__ import annotations

import copy
import gc
import inspect
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

collects = gc.isenabled()
gc.disable()  # until all is imported: collecting garbage meanwhile takes half a second per job

import safetensors
import torch
import transformers
from torch import nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedTokenizerBase,
)
from transformers.activations import NewGELUActivation
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from gnorm.devices import device
from gnorm.errors import UserError
from gnorm.files import atomic, refusal
from gnorm.logs import log
from gnorm.models import folders, versions

versions.without_scikit_learn()  # before the rest of transformers is imported

if collects:
    gc.enable()
GONE = ("pruned_heads", "pruned_neurons", "zeroed_heads", "zeroed_neurons")  # in the configuration of a pruned model
CLASSES = {"classification": AutoModelForSequenceClassification, "language_model": AutoModelForCausalLM}
KINDS = {
    AutoModelForSequenceClassification: MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    AutoModelForCausalLM: MODEL_FOR_CAUSAL_LM_MAPPING,
}
TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}  # of safetensors
SPARE = 2**28  # numbers that a model may have beside its weights: a new head, masks, tables of positions

transformers.logging.set_verbosity_error()  # its advice on faster padding would fill the logs
transformers.logging.disable_progress_bar()


def task_of(model: nn.Module | PretrainedConfig) -> str:
    """Tell the task of a model, or of one saved with this configuration."""
    kinds = [type(model).__name__] if isinstance(model, nn.Module) else model.architectures or []
    return "language_model" if {*kinds} & {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()} else "classification"


def load(
    folder: str | Path, attention: str = "sdpa", on: torch.device | str | None = None, pruned: bool = False
) -> tuple[nn.Module, PreTrainedTokenizerBase]:
    """Load a frozen model in evaluation mode, on the device `on` or the available one, and its tokenizer.

    Weights become float32, and are saved again as they were stored. A model that has lost heads or neurons is refused,
    unless `pruned`: see `gnorm.models.export`.
    """
    config = configuration(folder)
    if not pruned and any(getattr(config, name, None) for name in GONE):
        raise UserError(f"{folder} has pruned heads or neurons already; start from an unpruned checkpoint")
    model, new = from_folder(CLASSES[task_of(config)], folder, attention)
    if new:
        raise UserError(_incomplete(folder, config, new))
    tokenizer = load_tokenizer(folder)
    with _explained(folder):
        fit(model, tokenizer, str(folder))
    model.stored_as = _stored_as(config, folder)
    return fuse(model).to(on or device()).eval().requires_grad_(False), tokenizer


def configuration(folder: str | Path, **changes) -> PretrainedConfig:
    """Read a folder's configuration, with `changes` of it, once all of the folder is checked."""
    if not Path(folder, "config.json").exists():
        raise UserError(f"{folder} holds no model saved by save_pretrained (config.json is missing)")
    folders.vet(folder)
    folders.check_sums(folder)
    folders.check_counts(folder)
    with _explained(folder):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **changes)
        versions.drop_other_type(config)
        config.return_dict = True  # outputs are asked for by name, and others only where they are wanted
        config.output_attentions = config.output_hidden_states = False
        return config


def _stored_as(config: PretrainedConfig, folder: str | Path) -> torch.dtype:
    """The type that a model's weights were stored in, as its configuration says or else the files."""
    dtype = getattr(config, versions.DTYPE, None)
    if dtype is None:
        return stored_type(folder)
    if isinstance(dtype, torch.dtype) and dtype.is_floating_point:
        return dtype
    raise UserError(f"{folder}/config.json: dtype must name floating-point numbers, such as float32, got {dtype!r}")


def from_folder(auto: type, folder: str | Path, attention: str = "sdpa", **changes) -> tuple[nn.Module, list[str]]:
    """Load a model, and list its weights that the folder lacks or has in another shape: these are random.

    A weight that is tied to a saved one counts as saved. `changes` are those of the configuration.
    """
    config = configuration(folder, **changes)
    if attention == "sdpa" and not getattr(KINDS[auto].get(type(config), None), "_supports_sdpa", True):
        attention = "eager"
    # The configuration may name another attention, even one whose code would be downloaded.
    given = {"attn_implementation": attention, "trust_remote_code": False, versions.DTYPE: torch.float32}
    with _explained(folder):
        _check_size(auto, config, folder, given)
        model, report = auto.from_pretrained(
            folder,
            config=config,
            ignore_mismatched_sizes=True,  # or the error would not name the weight
            output_loading_info=True,
            local_files_only=True,
            **given,
        )
    lacking = versions.lacking(report)
    return model, [name for name, _ in model.named_parameters() if name in lacking]


def _check_size(auto: type, config: PretrainedConfig, folder: str | Path, given: dict) -> None:
    """Refuse a configuration of a larger model than the weights can be of, before memory is taken for it.

    A model on the device "meta" has shapes and no numbers. A number takes a byte of the weights at least.
    """
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        built = auto.from_config(copy.deepcopy(config), **given)
    asked = sum(part.numel() for part in (*built.parameters(), *built.buffers()))
    held = sum(path.stat().st_size for path in folders.weights(folder))
    if asked > held + SPARE:
        raise UserError(
            f"{folder}: config.json is of a model of {asked:,} numbers, and the weights beside it have {held:,} bytes: "
            "correct it, or take another checkpoint"
        )


def _incomplete(folder: str | Path, config: PretrainedConfig, new: list[str]) -> str:
    """Explain which weights a checkpoint lacks and what to do about it."""
    kind = f" (saved as {config.architectures[0]})" if config.architectures else ""
    remedy = "take a checkpoint that has them"
    if task_of(config) == "classification":
        remedy = "take a checkpoint fine-tuned for classification, or train them with `source: finetune`"
    return f"{folder} has no weights of the right shape for {listed(new)}{kind}: {remedy}"


def listed(names: list[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def fit(model: nn.Module, tokenizer: PreTrainedTokenizerBase, where: str = "the model") -> None:
    """Make a tokenizer give the model's inputs, and stop the model from keeping keys and values."""
    agree(model, tokenizer, where, any_padding=task_of(model) == "language_model")
    if getattr(model.config, "use_cache", False):  # they are for generating text
        model.config.use_cache = False


def agree(model: nn.Module, tokenizer: PreTrainedTokenizerBase, where: str, any_padding: bool) -> None:
    """Make a tokenizer agree with the model in length, inputs and padding.

    With `any_padding` any token will do where none is named: a language model neither reads nor predicts
    padding, and an untrained classifier learns with any padding token.
    """
    tokenizer.model_max_length = min(tokenizer.model_max_length, positions(model))
    accepted = inspect.signature(model.forward).parameters
    tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name in accepted]
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


def fuse(model: nn.Module) -> nn.Module:
    """Replace ALBERT's activation by torch's single kernel for the same function, which saves an eighth of the time."""
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, NewGELUActivation):
                setattr(module, name, nn.GELU(approximate="tanh"))
    return model


def stored_type(folder: str | Path) -> torch.dtype:
    """Tell the type that most of a folder's weights have in its files."""
    held: Counter[torch.dtype | None] = Counter()
    for path in folders.weights(folder):
        if path.suffix == ".bin":
            for tensor in torch.load(path, map_location="meta", weights_only=True).values():
                held[tensor.dtype] += tensor.numel()
            continue
        with safetensors.safe_open(path, "pt") as file:
            for tensor in map(file.get_slice, file.keys()):
                held[TYPES.get(tensor.get_dtype())] += math.prod(tensor.get_shape())
    return max(TYPES.values(), key=lambda dtype: held[dtype])


def _explained(folder: str | Path) -> AbstractContextManager[None]:
    """Explain what goes wrong as a folder's model is made of it."""
    return folders.explained(f"the model in {folder} cannot be loaded", folder, lambda _: _damage(Path(folder)))


def _damage(folder: Path) -> str | None:
    """Say that a checkpoint has no weights, or which file of them is damaged."""
    found = folders.weights(folder)
    if not found:
        return f"{folder} has no weights (model.safetensors or pytorch_model.bin)"
    for path in found:
        try:
            if path.suffix == ".bin":
                torch.load(path, map_location="meta", weights_only=True)
                continue
            with safetensors.safe_open(path, "pt"):
                pass
        except Exception as damage:
            if path.suffix == ".bin":
                return refusal(path, damage, "convert it to model.safetensors where you trust it")
            return f"{path} is damaged or cut short ({damage}): copy or download it again"
    return None


def load_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    return versions.read_tokenizer(folder)


def positions(model: nn.Module) -> int:
    """How many tokens the model can place; a table with a padding index starts after it."""
    tables = [m for name, m in model.named_modules() if name.endswith("position_embeddings")]
    if not tables:  # rotary, or by another name
        return getattr(model.config, "max_position_embeddings", int(1e9))
    return min(table.num_embeddings - (-1 if table.padding_idx is None else table.padding_idx) - 1 for table in tables)


def save(folder: str | Path, model: nn.Module, tokenizer: PreTrainedTokenizerBase, note: str | None = None) -> None:
    """Save a model and its tokenizer; a `note` becomes the name of an empty tensor beside the weights.

    The tensor has their type: transformers 4 takes the first one's for that of all.
    """
    if task_of(model) == "language_model":
        model.config.use_cache = True  # for those who generate text with it
    with atomic(folder) as temporary:
        stored = as_stored(model)
        empty = {note: torch.empty(0, dtype=stored.dtype)} if note else {}
        stored.save_pretrained(temporary, state_dict=stored.state_dict() | empty)
        versions.write_tokenizer(temporary, tokenizer)
        folders.drop_code(temporary)
        folders.write_sums(temporary)


def as_stored(model: nn.Module) -> nn.Module:
    """Copy a model into the type that its weights were loaded from, if that rounds none of them."""
    dtype = getattr(model, "stored_as", None)
    if dtype in (None, model.dtype):
        return model
    narrow = copy.deepcopy(model).to(dtype)
    if all(torch.equal(p, q.to(p.dtype)) for p, q in zip(model.parameters(), narrow.parameters(), strict=True)):
        return narrow
    log.warning("some weights are not exact in %s: all are saved as %s", dtype, model.dtype)
    return model


def check_task(model: nn.Module, task: str, classes: Sequence[str]) -> None:
    """Refuse a model from outside that does not fit the suite's task and classes."""
    if task_of(model) != task:
        raise UserError(
            f"the model is a {type(model).__name__}: set `task: {task_of(model)}` of its entry in the suite, "
            f"or take a checkpoint for {task}"
        )
    if task == "classification":
        check_classes(model, classes)


def check_inputs(tokenizer: PreTrainedTokenizerBase, task: str) -> None:
    """Warn of inputs that a language model may have been trained without."""
    if task == "language_model" and "token_type_ids" in tokenizer.model_input_names:
        log.warning(
            "the tokenizer gives token_type_ids, and the model will get them, also to write: if it was trained "
            "without, take them out of model_input_names in tokenizer_config.json"
        )


def check_classes(model: nn.Module, classes: Sequence[str]) -> None:
    if model.config.num_labels != len(classes):
        raise UserError(
            f"the model has {model.config.num_labels} classes, the dataset lists {len(classes)} "
            f"({', '.join(classes)}): put `classes:` in the order of the model's outputs"
        )
    own = [str(model.config.id2label[i]) for i in range(len(classes))]
    places = {name.casefold(): i for i, name in enumerate(own)} | {name: i for i, name in enumerate(own)}
    numbers = {name.removeprefix("LABEL_"): i for i, name in enumerate(own)}
    if {*own} == {f"LABEL_{number}" for number in numbers} and {*classes} == {*numbers}:  # nobody has named them
        places |= numbers
    if any(places.get(name, places.get(name.casefold(), i)) != i for i, name in enumerate(classes)):
        raise UserError(
            f"the model's classes are {', '.join(own)} (id2label of its config.json), the dataset lists "
            f"{', '.join(classes)}: put `classes:` in the model's order"
        )
