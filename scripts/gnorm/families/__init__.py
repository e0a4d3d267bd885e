"""Families of models: one record each, in a module named after it. Nothing outside this folder depends on a
family's name; the paper's models and the shapes of the benchmark only say which family they are of.

A module has the name of `model_type` in config.json, with `_` for `-`, and sets `FAMILY`, a `Family`.
Imports neither torch nor transformers, because the Snakefile reads the records too.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
# The usual names of a model's dimensions in configurations.
DIMENSIONS = {
    "vocabulary": "vocab_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "width": "hidden_size",
    "feed_forward": "intermediate_size",
    "positions": "max_position_embeddings",
}
# Settings of an encoder that is trained here.
ENCODER = {
    "hidden_act": "gelu",  # ALBERT's own gelu_new takes twice as long and changes nothing here
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout_prob": 0.0,
    "type_vocab_size": 2,
}


@dataclass(frozen=True)
class Layout:
    """Names of modules: {i} is the layer, relative to the model's body; the others relative to the layer."""

    layer: str
    attention: str
    query: str
    key: str
    value: str
    output: str
    up: tuple[str, ...]  # projections of the feed-forward layer: to its neurons, then the one that gates them, if any
    down: str
    counts: tuple[str, ...] = ()  # attributes of the attention module that count heads
    sizes: tuple[str, ...] = ()  # attributes that count columns
    repeats: str = ""  # the attribute that says how often a K/V head is repeated


@dataclass(frozen=True)
class Tokenizer:
    """The parts of the published tokenizer, to train one like it."""

    kind: str  # of subwords: wordpiece, unigram or bytes
    wrapper: str  # class of transformers
    special: tuple[str, ...]  # in the order of their ids
    single: str
    pair: str
    unknown: str
    options: Mapping[str, object] = field(default_factory=dict)  # where they differ from the wrapper's own


@dataclass(frozen=True)
class Scratch:
    """Settings of training from scratch."""

    tokenizer: Tokenizer
    settings: Mapping[str, object]  # of the configuration, the same for every model


@dataclass(frozen=True)
class Family:
    name: str  # model_type in config.json
    layout: Layout
    dimensions: Mapping[str, str] = field(default_factory=lambda: DIMENSIONS)  # their names in config.json
    key_heads: str = ""  # name of the number of K/V heads, where groups of query heads can share them
    embedding: str = ""  # name of the width of embeddings, where it may differ
    tied: str = ""  # name of the number of groups of layers, where layers share weights
    demands: Mapping[str, object] = field(default_factory=dict)  # the only supported values in config.json
    decoder: bool = False  # a token attends to itself and to those before it; trained here as a language model
    rotary: bool = False  # positions turn queries and keys in pairs of columns, and have no weights
    positions_after_padding: bool = False  # position ids start after the padding token's id
    textpruner: bool = False  # TextPruner knows it
    scratch: Scratch | None = None  # None if it cannot be trained from scratch here

    @property
    def grouped(self) -> bool:
        """Whether groups of query heads can share K and V."""
        return bool(self.key_heads)


def module(name: str) -> str:
    """Name the module of a family as `code` in the rules takes it."""
    return f"families.{name.replace('-', '_')}"


def load(name: str) -> Family:
    """Import the family called `name` alone, so that a rule can declare it alone."""
    return importlib.import_module(f"gnorm.{module(name)}").FAMILY


def names() -> list[str]:
    """The names of all families, as in config.json."""
    return sorted(load(path.stem).name for path in FOLDER.glob("[!_]*.py"))


def find(name: str) -> Family | None:
    """Find the family of a configuration's `model_type`; None without a record of it."""
    known = {path.stem for path in FOLDER.glob("[!_]*.py")}  # a name may be any text, a path too
    return load(name) if name.replace("-", "_") in known else None


def trainable() -> list[str]:
    """The names of the families that can be trained from scratch."""
    return [name for name in names() if load(name).scratch]
