"""The paper's model shapes, and assumptions about their rows; imports no torch, so that the summary can read them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from gnorm.published import paper


@dataclass(frozen=True, kw_only=True)
class Shape(paper.Architecture):
    length: float  # mean tokens of a row, special tokens included: an assumption, the datasets are not read
    batch: int  # rows of a batch in the authors' notebook
    rows: int  # rows scored here in one step
    passes: int  # passes over the rows that the notebook makes for one step; 0 if there is no notebook


def _papers(name: str, **own) -> Shape:
    reported = paper.MODELS[name]
    return Shape(**{field.name: getattr(reported, field.name) for field in fields(paper.Architecture)}, **own)


SHAPES = {
    "BERT": _papers("BERT", length=20, batch=32, rows=32, passes=12),
    "ALBERT": _papers("ALBERT", length=30, batch=32, rows=32, passes=1),
    "RoBERTa": _papers("ROBERTA", length=16, batch=4, rows=4, passes=24),
    "XLM-RoBERTa": _papers("XLM_ROBERTA", length=20, batch=8, rows=8, passes=12),
    "MiniLM": Shape(
        family="bert",
        layers=6,
        heads=12,
        width=384,
        embedding=384,
        vocabulary=30522,
        positions=512,
        classes=2,
        length=20,
        batch=32,
        rows=32,
        passes=0,
    ),
}
SAME_ENCODER = {"XLM-RoBERTa": "BERT"}  # accuracy and entropy would cost the same minutes again
# Deep and cheap.
NARROW = replace(SHAPES["MiniLM"], layers=12, heads=4, width=128, embedding=128, vocabulary=1000)
