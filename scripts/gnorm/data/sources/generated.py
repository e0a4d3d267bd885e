"""Datasets drawn from a corpus of the package, for runs without a network."""

from __future__ import annotations

from gnorm.data import corpora
from gnorm.errors import UserError, unknown


def check(entry: dict, model: dict, where: str) -> None:
    if entry["corpus"] not in corpora.names():
        raise UserError(f"{where}.corpus: there is no {unknown(entry['corpus'], corpora.names(), 'corpus')}")
    labelled = bool(corpora.load(entry["corpus"]).LABELS)
    if labelled != (model["task"] == "classification"):
        has, task = ("labels", "classification") if labelled else ("no labels", "language_model")
        raise UserError(f"{where}.corpus: {entry['corpus']!r} has {has}: take another corpus, or set task: {task}")


def modules(entry: dict) -> list[str]:
    return [f"data.corpora.{entry['corpus']}"]


def rows(entry: dict, counts: dict, seed: int):
    """Draw as many rows as `counts` asks for, as a `datasets.Dataset`, and the names of their classes."""
    import datasets

    from gnorm.data.rows import LISTS, NO_CLASS

    corpus = corpora.load(entry["corpus"])
    needed = sum(counts[name] for name in LISTS if counts[name] != "same")
    # Rows without a class cannot be evaluated: draw enough that the rest still suffice.
    labels = corpus.LABELS + getattr(corpus, "UNSCORED", ())
    if labels:
        needed = int(needed * len(labels) / len(corpus.LABELS) * 1.05) + 10
    drawn = corpora.draw(entry["corpus"], needed, seed)
    classes: dict = {name: i for i, name in enumerate(corpus.LABELS)} or {None: None}
    labelled = [{"row": i, **row, "label": classes.get(row["label_name"], NO_CLASS)} for i, row in enumerate(drawn)]
    return datasets.Dataset.from_list(labelled), list(corpus.LABELS)
