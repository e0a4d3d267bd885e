"""What differs between the supported versions of transformers, 4.53 and 5. No other module asks for a version."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import transformers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import import_utils

from gnorm.errors import UserError
from gnorm.files import write_json
from gnorm.models import folders

if TYPE_CHECKING:  # make_dataset reads tokenizers without torch
    from torch import nn
    from transformers import PretrainedConfig

VERSION = transformers.__version__
SUPPORTED = ("4.53.3", "5.23.0")
FIVE = int(VERSION.partition(".")[0]) >= 5
# The argument of `from_pretrained` for the type of weights. Without it, 4 gives float32 and 5 the saved type.
DTYPE = "dtype" if FIVE else "torch_dtype"
LONGEST = 2**20  # tokens that a tokenizer may pad to
GROWTH = 1_000  # times that it may make a text longer


def other_writer(config: Any) -> str | None:
    """Name the version that wrote a configuration, if it is not of this main version."""
    wrote = getattr(config, "transformers_version", None) or VERSION
    return wrote if wrote.partition(".")[0] != VERSION.partition(".")[0] else None


def drop_other_type(config: PretrainedConfig) -> None:
    """Leave one key for the type of weights: 4 does not know that of 5, and would save it as it was."""
    if not FIVE:
        vars(config).pop("dtype", None)


def without_scikit_learn() -> None:
    """Keep transformers 4 from importing it for text generation that jobs do not use: one second per job."""
    if not FIVE:
        import_utils._sklearn_available = False


def lacking(report: dict[str, Any]) -> set[str]:
    """Name the weights that a folder lacks or has in another shape, as `from_pretrained` reports them."""
    others = report["mismatched_keys"]  # names on 4, names with both shapes on 5
    return {*report["missing_keys"], *(other if isinstance(other, str) else other[0] for other in others)}


def read_tokenizer(folder: str | Path) -> PreTrainedTokenizerFast:
    """Load a local folder's tokenizer so that it splits texts as its files say.

    On 5, AutoTokenizer makes those of ALBERT and XLM-RoBERTa anew from their vocabulary, with other rules for spaces
    and accents than `tokenizer.json` has, and ALBERT's no longer marks which of two texts a token belongs to.
    """
    folders.vet(folder)
    if Path(folder, "config.json").exists():  # which the library reads too
        folders.check_counts(folder)
    with folders.explained(f"the tokenizer in {folder} cannot be loaded"):
        return _read_tokenizer(folder)


def _read_tokenizer(folder: str | Path) -> PreTrainedTokenizerFast:
    local = {"local_files_only": True, "trust_remote_code": False}
    with quiet():  # about the class that `tokenizer_config.json` names
        tokenizer = AutoTokenizer.from_pretrained(folder, **local)
        if FIVE and Path(folder, "tokenizer.json").exists():
            named = {name: token for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)}
            names = tokenizer.model_input_names
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, **named, model_input_names=names, **local)
    _check_settings(tokenizer, folder)
    config = Path(folder, "config.json")
    segments = json.loads(config.read_text(encoding="utf-8")).get("type_vocab_size") if config.exists() else 0
    return giving_segments(tokenizer) if (segments or 0) > 1 else tokenizer


def _check_settings(tokenizer: PreTrainedTokenizerFast, folder: str | Path) -> None:
    """Refuse a tokenizer that would fill every text up to a length without end, or whose settings are none."""
    most, names = tokenizer.model_max_length, tokenizer.model_input_names
    if not isinstance(most, int | float) or not most > 0:
        raise UserError(f"{folder}/tokenizer_config.json: model_max_length must be a number of tokens, got {most!r}")
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{folder}/tokenizer_config.json: model_input_names must be a list of names, got {names!r}")
    padding = tokenizer.backend_tokenizer.padding if tokenizer.is_fast else None
    length = max((padding or {}).get(name) or 0 for name in ("length", "pad_to_multiple_of"))
    if length > LONGEST:
        raise UserError(f"{folder}/tokenizer.json pads every text to {length:,} tokens: take `padding` out of it")
    normalizer = tokenizer.backend_tokenizer.normalizer if tokenizer.is_fast else None
    times = _growth(json.loads(normalizer.__getstate__())) if normalizer else 1
    if times > GROWTH:
        raise UserError(f"{folder}/tokenizer.json can make texts {times:,} times as long: correct its `normalizer`")


def _growth(normalizer: dict[str, Any]) -> int:
    """How many times as long a tokenizer's replacements can make a text, one after another."""
    times = 1
    for part in normalizer.get("normalizers", [normalizer]):
        if "normalizers" in part:
            times *= _growth(part)
        elif part.get("type") == "Replace":
            replaced = len(part["pattern"].get("String", ""))  # an expression may stand for nothing at all
            times *= -(-len(part["content"]) // replaced) if replaced else 1 + len(part["content"])
        times = max(times, 1)
    return times


def giving_segments(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """Let a tokenizer that marks which of two texts a token belongs to give these marks to the model."""
    names = tokenizer.model_input_names
    marks = tokenizer.is_fast and 1 in tokenizer.backend_tokenizer.encode("a", "a").type_ids
    if marks and "token_type_ids" not in names:
        tokenizer.model_input_names = [*names, "token_type_ids"]
    return tokenizer


def write_tokenizer(folder: str | Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Save a tokenizer so that PreTrainedTokenizerFast reads it on any version as `read_tokenizer` does.

    So does AutoTokenizer, except for families whose class it takes whatever the folder says (on 5: Qwen2).
    """
    tokenizer.save_pretrained(folder)
    path = Path(folder, "tokenizer_config.json")
    if tokenizer.is_fast and path.exists():
        said = json.loads(path.read_text(encoding="utf-8"))
        said |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": list(tokenizer.model_input_names)}
        if isinstance(said.get("extra_special_tokens"), list):  # as 5 writes them, and 4 cannot read
            said["additional_special_tokens"] = said.pop("extra_special_tokens")
        write_json(path, said)
    folders.drop_code(folder)


@contextmanager
def quiet() -> Iterator[None]:
    """Let transformers log errors only, and afterwards as much as before: importing TextPruner turns it up to INFO."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(before)


def asking_for_attention(model: nn.Module) -> dict[str, bool]:
    """Make the argument with which attention modules return their matrices, if eager attention needs one for that.

    On 5 most modules always return them, and the argument makes the model keep those of all layers.
    """
    plain = FIVE and isinstance(model, transformers.PreTrainedModel)
    if plain and "output_attentions" not in inspect.signature(model.forward).parameters:
        return {}
    return {"output_attentions": True}


def ignore_when_loading(model: nn.Module, name: str) -> None:
    """Keep quiet about a tensor of this name in the folder that a model is being loaded from."""
    owner = model if FIVE else type(model)  # 4 asks the class, 5 copies its answer to the model
    owner._keys_to_ignore_on_load_unexpected = {*(owner._keys_to_ignore_on_load_unexpected or ()), name}


def remember_pruned(model: nn.Module, attention: str, heads: Iterable[int]) -> None:
    """Tell a model of transformers 4 which heads are gone: its own `prune_heads` counts the columns left by that."""
    for name in (attention, attention.rpartition(".")[0]):
        known = getattr(model.get_submodule(name), "pruned_heads", None)
        if not FIVE and isinstance(known, set):
            known |= {*heads}


@contextmanager
def not_pruning(config: Any) -> Iterator[None]:
    """Hide which heads are pruned from transformers 4, which removes them by itself in some families."""
    if FIVE:
        yield
        return
    gone, config.pruned_heads = config.pruned_heads, {}
    try:
        yield
    finally:
        config.pruned_heads = gone
