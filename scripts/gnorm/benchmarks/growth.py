"""The growth of a scoring pass's cost with rows, sentence length, layers and heads kept."""

from __future__ import annotations

import pandas as pd

from gnorm.benchmarks import clock, models
from gnorm.benchmarks.shapes import SHAPES
from gnorm.engine.batches import make
from gnorm.engine.memory import LARGEST
from gnorm.logs import log
from gnorm.models import surgery
from gnorm.scores import gnorm

SHAPE = SHAPES["BERT"]
ROWS, LENGTH = 8, 24
POINTS = {"rows": (8, 16, 32), "length": (24, 48, 96), "layers": (3, 6, 12), "heads kept": (12, 6, 1)}


def case(what, point):
    """Make a model and batches that differ from the standard case in one respect."""
    rows = point if what == "rows" else ROWS
    length = point if what == "length" else LENGTH
    model, heads = models.build(SHAPE, point if what == "layers" else SHAPE.layers)
    gone = range(point if what == "heads kept" else heads.heads, heads.heads)
    if gone:
        surgery.prune(model, heads, [(row, head) for row in range(heads.shape[0]) for head in gone])
    return model, heads, make(models.Ids(SHAPE), models.rows(SHAPE, rows, length), LARGEST[model.device.type])


def measure(repeats: int) -> pd.DataFrame:
    """Time every case, repeated by turns."""
    timed = []
    for what, points in POINTS.items():
        cases = {point: case(what, point) for point in points}
        for repeat in range(-1, repeats):  # the first run allocates
            for point, (model, heads, batches) in cases.items():
                value = clock.seconds(lambda m=model, h=heads, b=batches: gnorm.score(m, h, b))
                if repeat >= 0:
                    timed.append({"what": what, "point": point, "repeat": repeat, "seconds": value})
        log.info("%s: %s", what, {point: f"{f['seconds']:.2f} s" for point, f in zip(points, timed[-3:], strict=True)})
    return pd.DataFrame(timed).assign(machine=clock.machine())
