"""Dimensions of a suite's models, from their files or else from the suite, and the memory that jobs with them need."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnorm import families, layout, scores
from gnorm.engine.footprint import LARGEST, LIBRARIES_MB, bytes_per_token
from gnorm.pruning.rescoring import most
from gnorm.published import paper

MOST = 10**9  # of anything that a configuration counts
UNKNOWN = "nothing: taken for RoBERTa-large"  # the source of dimensions that nobody knows yet


@dataclass(frozen=True)
class Shape:
    """Dimensions of a model; `source` says where they are from."""

    layers: int
    heads: int
    width: int
    feed_forward: int
    vocabulary: int
    positions: int
    embedding: int
    source: str
    token_types: int = 2
    groups: int = 0  # of query heads that are pruned as one, 0 for none
    tied: bool = False  # all layers share their weights
    rotary: bool = False  # positions turn queries and keys, and have no weights

    @property
    def known(self) -> bool:
        return self.source != UNKNOWN

    @property
    def slots(self) -> int:
        """Heads that can be pruned one by one."""
        return (self.groups or self.heads) * (1 if self.tied else self.layers)

    @property
    def parameters(self) -> int:
        """All but the last layer of the classifier, whose size is the dataset's; of rotary models at most."""
        w, f, e = self.width, self.feed_forward, self.embedding
        # The neurons of rotary models are gated, by a third projection.
        layer = 4 * (w * w + w) + (3 if self.rotary else 2) * w * f + f + w + 4 * w
        embeddings = (self.vocabulary + (0 if self.rotary else self.positions) + self.token_types) * e + 2 * e
        projection = e * w + w if self.tied else 0
        return embeddings + projection + layer * (1 if self.tied else self.layers) + w * w + w


def shape(entry: dict[str, Any], folders: Iterable[str | Path] = ()) -> Shape:
    """A model's dimensions: as its files say once they are there (`folders`), else as the suite says.

    A model that neither says anything of is taken for the largest of the paper's.
    """
    checkpoint = entry["checkpoint"].get("from", entry["checkpoint"])  # of one to be fine-tuned, what it starts from
    own = [checkpoint["path"]] if "path" in checkpoint else []
    for folder in (*own, *folders):
        path = Path(folder, "config.json")
        if path.is_file() and (of_files := _read(path)):
            return of_files
    family = families.find(checkpoint.get("family", ""))
    if family:  # trained here
        return Shape(
            **{key: checkpoint[key] for key in ("layers", "heads", "width", "feed_forward", "vocabulary")},
            positions=checkpoint["length"],
            embedding=checkpoint["width"],
            source="the suite",
            groups=0 if checkpoint.get("prune_by") == "query" else checkpoint.get("key_heads", 0),
            tied=bool(family.tied),
            rotary=family.rotary,
        )
    if said := entry.get("dimensions"):
        return Shape(**said, embedding=said["width"], source="the suite")
    name = paper.HUB.get(checkpoint.get("id"))
    of, source = paper.MODELS[name or "ROBERTA"], "the paper" if name else UNKNOWN
    sizes = of.layers, of.heads, of.width, 4 * of.width, of.vocabulary, of.positions, of.embedding
    return Shape(*sizes, source, of.token_types, tied=of.tied)


def shape_of(model: str, settings: dict[str, Any]) -> Shape:
    """A model's dimensions, with what its suite has of it by now."""
    folders = (layout.CHECKPOINT, layout.DOWNLOADED_MODEL)
    return shape(
        settings["models"][model], [layout.fill(path, suite=settings["suite"], model=model) for path in folders]
    )


def _read(path: Path) -> Shape | None:
    """Dimensions in a model's configuration; none if it says too little: loading it will say what is wrong."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        family = families.find(config.get("model_type", ""))
        records = [family] if family else list(map(families.load, families.names()))

        def said(name: str) -> Any:
            """A dimension, by the name that the family or any other has for it."""
            return next((config[key] for record in records if config.get(key := record.dimensions[name])), None)

        sizes = {name: said(name) for name in families.DIMENSIONS}
        sizes["feed_forward"] = sizes["feed_forward"] or 4 * sizes["width"]  # GPT-2's, unsaid
        if None in sizes.values():
            return None
        sizes["embedding"] = config.get("embedding_size", sizes["width"])
        sizes["token_types"] = config.get("type_vocab_size", 2)
        sizes["groups"] = 0 if config.get("prune_by") == "query" else config.get("num_key_value_heads") or 0
        if not all(type(size) is int and 0 <= size <= MOST for size in sizes.values()):
            return None
        return Shape(
            source=str(path),
            tied=bool(family and family.tied),
            rotary=family.rotary if family else any({"rope", "rotary"} & {*key.split("_")} for key in config),
            **sizes,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def slots_of(strategy: dict, of: Shape) -> int:
    """Count the slots that a strategy can prune one by one."""
    if strategy["unit"] == "heads":
        return of.slots
    return of.feed_forward // strategy["group"] * (1 if of.tied else of.layers)


def steps_of(strategy: dict, of: Shape, stop: dict) -> int:
    """Count the most steps that a strategy's trajectory can take, before accuracy counts."""
    tied = of.layers if of.tied else 1  # that lose a slot in one step
    return most(slots_of(strategy, of) * tied, stop.get("heads"), stop.get("fraction")) // tied


def memory_mb(model: str, of: Shape, settings: dict) -> int:
    """What a job with this model asks for: the suite's `memory_mb`, or what its size needs on a CPU.

    Two models (the unpruned one, and the one that loses heads), a full batch with a fifth to spare, kept outputs, and
    the libraries twice over, for a GPU's take more of the host.
    """
    jobs, entry = settings["jobs"], settings["models"][model]
    if jobs["memory_mb"] != "auto":
        return jobs["memory_mb"]
    scored = [*entry["compare"].items(), *((s["score"], s["settings"]) for s in entry["strategies"].values())]
    names = {name for score, own in scored for name in (score, *own.get("members", {}))}
    matrices = any(scores.describe(name).attention == "backward" for name in names)  # of all layers, kept
    vocabulary = of.vocabulary if entry["task"] == "language_model" else 0
    batch = LARGEST["cpu"] if jobs["batch_tokens"] == "auto" else jobs["batch_tokens"]
    dimensions = of.layers, of.heads, of.width, of.feed_forward, of.positions, of.tied, batch
    a_token = bytes_per_token(*dimensions, vocabulary=vocabulary, matrices=matrices)
    outputs = evaluated(entry) * entry["row_tokens"] * of.width * 4 * of.layers / 2**20
    weights = 4 * of.parameters / 2**20
    needed = 2 * LIBRARIES_MB + 2 * weights + 1.25 * batch * a_token / 2**20
    return 500 * -(-int(needed + min(jobs["reuse_mb"], 2 * outputs)) // 500)


def evaluated(entry: dict) -> int:
    """Rows that an accuracy is measured on."""
    rows = entry["rows"]
    return rows["calibration"] if rows["evaluation"] == "same" else rows["evaluation"]
