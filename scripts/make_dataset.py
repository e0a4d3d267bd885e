"""Make a model's dataset: rows, index lists, tokenizer and a summary to read."""

import os
import sys
from functools import partial

if __name__ == "__main__":
    # Tokenizers need no torch, and transformers would import it: seconds a job. So it must not find torch.
    os.environ["TRANSFORMERS_NO_ADVISORY_WARNINGS"] = "1"  # that there are no models without
    sys.modules["torch"] = None
    import transformers  # noqa: F401

    del sys.modules["torch"]

from gnorm.data import prepare, records, tokenizers
from gnorm.errors import UserError
from gnorm.files import atomic, write_json, write_text
from gnorm.logs import log, start
from gnorm.models import versions
from gnorm.shown import one_line


def main(*, name, dataset, checkpoint, counts, seed, outputs):
    if dataset.get("classes") == "model":
        dataset = dataset | {"classes": prepare.model_classes(checkpoint["path"])}
    built = tokenizers.load(checkpoint["path"]) if "path" in checkpoint else None
    rows, splits, classes = prepare.make(dataset, counts, seed, built and partial(tokenizers.count, built))
    log.info("%d rows", len(rows))
    if built is None:
        texts = [" ".join(filter(None, (row["text"], row["pair"]))) for row in rows.select(splits["train"])]
        built = tokenizers.train(checkpoint["family"], texts, checkpoint["vocabulary"], checkpoint["length"])
    lengths = [tokenizers.count(built, row) for row in rows]
    cut = sum(length > built.model_max_length for length in lengths)
    if cut:
        log.info("%d rows are longer than %d tokens and will be cut", cut, built.model_max_length)
    for remark in prepare.remarks(rows, splits):
        log.warning("%s", remark)
    if not splits["evaluation"]:
        raise UserError(f"{name}: no row is left to evaluate")
    with atomic(outputs.tokenizer) as temporary:
        versions.write_tokenizer(temporary, built)
    records.write(rows, outputs.rows)
    write_json(outputs.splits, prepare.facts(classes, rows["label"], splits))
    summary = partial(prepare.summary, name, rows, splits, lengths, built.model_max_length)
    write_text(outputs.summary, summary())
    write_text(outputs.page, prepare.page(name, summary(show=one_line)))


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} dataset")
    params = snakemake.params
    main(
        name=snakemake.wildcards.model,
        dataset=params.dataset,
        checkpoint=params.checkpoint,
        counts=params.counts,
        seed=params.seed,
        outputs=snakemake.output,
    )
