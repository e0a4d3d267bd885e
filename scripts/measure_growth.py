"""How the cost of a scoring pass grows with rows, sentence length, layers and heads kept."""

import sys
from pathlib import Path

import pandas as pd
import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))
from benchmarks import clock, shapes
from gnorm.engine.batches import make
from gnorm.engine.memory import LARGEST
from gnorm.files import atomic
from gnorm.logs import log, start
from gnorm.models import surgery
from gnorm.scores import gnorm

SHAPE = shapes.SHAPES["BERT"]
ROWS, LENGTH = 8, 24
POINTS = {"rows": (8, 16, 32), "length": (24, 48, 96), "layers": (3, 6, 12), "heads kept": (12, 6, 1)}


def case(what, point):
    """A model and batches that differ from the middle of the road in one respect."""
    rows = point if what == "rows" else ROWS
    length = point if what == "length" else LENGTH
    model, heads = shapes.build(SHAPE, point if what == "layers" else SHAPE.layers)
    gone = range(point if what == "heads kept" else heads.heads, heads.heads)
    if gone:
        surgery.prune(model, heads, [(row, head) for row in range(heads.shape[0]) for head in gone])
    return model, heads, make(shapes.Ids(SHAPE), shapes.rows(SHAPE, rows, length), LARGEST[model.device.type])


def main(repeats, output):
    found = []
    for what, points in POINTS.items():
        cases = {point: case(what, point) for point in points}
        for repeat in range(-1, repeats):  # the first run allocates
            for point, (model, heads, made) in cases.items():
                value = clock.seconds(lambda m=model, h=heads, b=made: gnorm.score(m, h, b))
                if repeat >= 0:
                    found.append({"what": what, "point": point, "repeat": repeat, "seconds": value})
        log.info("%s: %s", what, {point: f"{f['seconds']:.2f} s" for point, f in zip(points, found[-3:], strict=True)})
    with atomic(output) as temporary:
        pd.DataFrame(found).assign(machine=clock.machine()).to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], "bench growth")
    torch.set_num_threads(snakemake.threads)
    main(snakemake.params.repeats, snakemake.output[0])
