"""The numbers that the paper prints, beside those of a run and of the published files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from gnorm.published import paper
from gnorm.published.evidence import Evidence
from gnorm.statistics.curves import megabytes

REPRODUCED, DIFFERS = "reproduced", "differs"


@dataclass(frozen=True)
class Number:
    """A number that the paper prints."""

    part: str
    item: str
    model: str
    printed: float
    decimals: int
    find: Callable[[Evidence], float | None]  # from accuracies
    computed: float | None = None  # from the architecture and the mask, independent of any run
    points: bool = False  # an accuracy: one's own run may differ by more than rounding


def numbers(model: str, parameters: pd.DataFrame) -> list[Number]:
    """Tables 1-5 for one model."""
    facts = paper.MODELS[model]
    own = parameters[parameters["model"] == model].set_index("module")
    title, none = facts.title, lambda _evidence: None
    before, after = (lambda e: e.accuracy(model, 0)), (lambda e: e.accuracy(model, facts.pruned))

    def lost(evidence):
        pair = before(evidence), after(evidence)
        return None if None in pair else 100 * (1 - pair[1] / pair[0])

    size = [megabytes(own.loc["model", when]) for when in ("before", "after")]
    items = [
        Number("Table 1", "accuracy before (%)", title, facts.accuracy[0], 2, before, points=True),
        Number("Table 1", f"accuracy after {facts.pruned} heads (%)", title, facts.accuracy[1], 2, after, points=True),
        Number("Table 1", "decrease of accuracy (%)", title, facts.accuracy_lost, 2, lost, points=True),
        Number("Table 1", "size before (MB)", title, facts.megabytes[0], 2, none, size[0]),
        Number("Table 1", "size after (MB)", title, facts.megabytes[1], 2, none, size[1]),
        Number("Table 1", "decrease of size (%)", title, facts.megabytes_lost, 2, none, 100 * (1 - size[1] / size[0])),
    ]
    for module, *printed in facts.parameters:
        for when, value in zip(("before", "after"), printed, strict=True):
            computed = float(own.loc[module, when])
            items.append(Number("Tables 2-5", f"parameters of {module} {when}", title, value, 0, none, computed))
    return items


def row_of(number: Number, run: Evidence | None, published: Evidence | None, subject: Evidence, missing: str) -> dict:
    """Compare a number with what is printed; without a value its status is `missing`."""
    values = {name: e and number.find(e) for name, e in (("run", run), ("published", published))}
    value = number.computed if number.computed is not None else values["run" if run else "published"]
    tolerance = subject.tolerance if number.points else 10**-number.decimals / 2 + 1e-9
    show = f"{{:,.{number.decimals}f}}".format
    difference = None if value is None else value - number.printed
    close = difference is not None and abs(difference) <= tolerance
    shown = {name: "" if v is None else show(v) for name, v in values.items()}
    if number.computed is not None:
        shown["run"] = show(number.computed)
    row = {"part": number.part, "item": number.item, "model": number.model, "paper": show(number.printed)}
    row |= {"published": shown["published"], "this run": shown["run"]}
    row["difference"] = "" if difference is None else f"{difference:+.{number.decimals}f}"
    row["status"] = missing if value is None else REPRODUCED if close else DIFFERS
    slip = (
        value is not None and not close and abs(difference) < 1.5 * 10**-number.decimals and "decrease" in number.item
    )
    how = "architecture and mask" if number.computed is not None else "PruningResults"
    return row | {"evidence": f"{how}; a slip of the last digit in print" if slip else how}
