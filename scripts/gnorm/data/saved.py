"""Chooses the files of a saved model that are needed."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from gnorm.errors import UserError
from gnorm.models.folders import WEIGHTS, drop_code, vet, write_sums

TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")
OTHERS = (".json", ".txt", ".model")  # configurations, vocabularies, merges, sentencepiece models


def check_folder(folder: str | Path) -> None:
    """Raise a `UserError` about a model's folder that has no tokenizer."""
    if not any(path.name in TOKENIZERS or path.suffix == ".model" for path in Path(folder).iterdir()):
        raise UserError(f"{folder} has no tokenizer ({', '.join(TOKENIZERS)}): save it there with save_pretrained")


def check_fetched(folder: str | Path) -> None:
    """Raise a `UserError` about a model that has just been fetched and does harm, and forget what code it names.

    Its files' digests are noted, so that jobs notice a change.
    """
    vet(folder)
    drop_code(folder)
    write_sums(folder)


def model_files(names: Iterable[str], where: str) -> list[str]:
    """Choose the needed files among the `names` of a model's files; weights as safetensors if there are any."""
    names = sorted(name for name in names if "/" not in name)
    weights: list[str] = []
    for patterns in WEIGHTS:
        weights = weights or [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
    others = [name for name in names if name.endswith(OTHERS) and not name.endswith(".index.json")]
    for what, present in (
        ("config.json", "config.json" in others),
        ("weights (model.safetensors or pytorch_model.bin)", bool(weights)),
        (f"tokenizer ({', '.join(TOKENIZERS)})", any(name in TOKENIZERS for name in others)),
    ):
        if not present:
            raise UserError(f"{where} has no {what}: a model saved by save_pretrained, and its tokenizer, are needed")
    return others + weights
