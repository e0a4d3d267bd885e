"""The origins of a suite's datasets and checkpoints, and the one form in which jobs get them.

A download becomes an entry of the source `file` or `local`. The settings of fine-tuning stand beside the `path` of the
pretrained checkpoint. So a dataset is made by the `rows` of a source, and a checkpoint has a `path`, settings of
training (`epochs` among them), or both. Imports nothing heavy, because the Snakefile imports this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from gnorm.data import sources

FETCHED = {"dataset": "file", "checkpoint": "local"}  # the source that a download becomes
OF_TOKENIZERS = ("path", "family", "vocabulary", "length")  # keys that a checkpoint's tokenizer depends on


@dataclass(frozen=True)
class Origin:
    """The origin of a model's dataset or checkpoint, and the entry that jobs get."""

    section: str  # dataset or checkpoint
    entry: Mapping[str, Any]  # the suite's, checked
    download: str  # the path of the download, if it is fetched

    @property
    def located(self) -> Mapping[str, Any]:
        """The entry that says where it is; of a fine-tuned checkpoint, that of the pretrained one."""
        return self.entry.get("from", self.entry)

    @cached_property
    def source(self) -> ModuleType:
        return sources.load(self.located["source"])

    @property
    def location(self) -> dict[str, Any]:
        """The settings that a download depends on."""
        wanted = "source", *getattr(self.source, "LOCATION", ())
        return {key: value for key, value in self.located.items() if key in wanted}

    @property
    def fetched(self) -> bool:
        return hasattr(self.source, "LOCATION")

    @property
    def mirror(self) -> str | None:
        """The setting that names a folder to look into instead of the network."""
        return getattr(self.source, "MIRROR", None)

    @property
    def retries(self) -> int:
        return getattr(self.source, "RETRIES", 0)

    @property
    def archives(self) -> dict[str, dict]:
        return self.source.archives(self.located) if hasattr(self.source, "archives") else {}

    @property
    def at_hand(self) -> dict[str, Any]:
        """The entry that a job gets, once everything is fetched."""
        own = {key: value for key, value in {**self.entry, **self.located}.items() if key != "from"}
        if not self.fetched:
            return own
        kept = {key: value for key, value in own.items() if key not in self.location}
        return kept | {"source": FETCHED[self.section], "path": self.download}

    @property
    def of_tokenizer(self) -> dict[str, Any]:
        """The settings of a checkpoint that its tokenizer depends on."""
        return {key: self.at_hand[key] for key in OF_TOKENIZERS if key in self.at_hand}

    @property
    def inputs(self) -> list[str]:
        """The files that a job reads it from, or the download."""
        if self.fetched:
            return [self.download]
        return self.source.inputs(self.located) if hasattr(self.source, "inputs") else []

    @property
    def fetched_by(self) -> list[str]:
        """Modules that the download loads by name."""
        return [f"data.sources.{self.located['source']}"]

    @property
    def read_by(self) -> list[str]:
        """Modules that making the rows of a dataset loads by name."""
        name = self.at_hand["source"]
        source = sources.load(name)
        return [f"data.sources.{name}", *(source.modules(self.located) if hasattr(source, "modules") else [])]


def check(model: Mapping[str, Any], where: str) -> None:
    """Raise a `UserError` about a model's dataset or checkpoint whose source cannot work."""
    for section in ("checkpoint", "dataset"):
        entry, at = model[section], f"{where}.{section}"
        for part, named in ((entry, at), *([(entry["from"], f"{at}.from")] if "from" in entry else [])):
            if hasattr(source := sources.load(part["source"]), "check"):
                source.check(part, model, named)


def check_together(models: Mapping[str, Mapping], suite: str) -> None:
    """Raise a `UserError` about entries that contradict each other."""
    by_source: dict[str, list[tuple[str, Mapping]]] = {}
    for name, model in models.items():
        for section in FETCHED:
            entry = Origin(section, model[section], "").located
            by_source.setdefault(entry["source"], []).append((f"{suite}: models.{name}", entry))
    for name, entries in by_source.items():
        if hasattr(source := sources.load(name), "check_together"):
            source.check_together(entries)
