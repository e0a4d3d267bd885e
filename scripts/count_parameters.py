"""Parameters of the paper's models, unpruned and with the paper's masks, without any weights."""

from dataclasses import replace

import pandas as pd

from gnorm.files import atomic
from gnorm.logs import log, start
from gnorm.models import surgery
from gnorm.models.accounting import modules
from gnorm.models.heads import head_map
from gnorm.published import paper
from gnorm.published.architectures import without_weights


def count(reported):
    """(module, before, after) of each module, named as in the paper's tables."""
    model = without_weights(reported)
    before = modules(model)
    surgery.prune(model, replace(head_map(model), textpruner=False), reported.gone())  # which would need values
    prefix = model.base_model_prefix
    names = [name.removeprefix(f"{prefix}.") if name != prefix else "backbone" for name, _, _ in before]
    return [(name, b[2], a[2]) for name, b, a in zip(names, before, modules(model), strict=True)]


def main(*, output):
    rows = [(name, *row) for name, reported in paper.MODELS.items() for row in count(reported)]
    log.info("%d modules of %d models", len(rows), len(paper.MODELS))
    with atomic(output) as temporary:
        pd.DataFrame(rows, columns=["model", "module", "before", "after"]).to_csv(temporary, index=False)


if __name__ == "__main__":
    start(snakemake.log[0], "parameters")
    main(output=snakemake.output[0])
