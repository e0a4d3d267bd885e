"""Save the pruned solution as a checkpoint that transformers loads by itself, with a card of what it is."""

import platform
import statistics
import time
from pathlib import Path

import torch

from gnorm.data.rows import read
from gnorm.engine import batches
from gnorm.engine.evaluate import Evaluation
from gnorm.engine.memory import token_budget
from gnorm.engine.metrics import METRICS
from gnorm.files import atomic, read_json, write_json
from gnorm.logs import log, start
from gnorm.models import checkpoints, surgery
from gnorm.models import export as folders
from gnorm.models.heads import head_map
from gnorm.pages import cards
from gnorm.statistics.curves import megabytes

SIZES = (1, 32)
REPEATS = 20


def typical_batches(tokenizer, rows):
    """A batch of each size, of rows of median length, and that length."""
    encoded = sorted(batches.encode(tokenizer, rows), key=lambda row: len(row["input_ids"]))
    median = encoded[len(encoded) // 2]
    return {size: tokenizer.pad([median] * size, return_tensors="pt") for size in SIZES}, len(median["input_ids"])


def latencies(models, inputs):
    """Median milliseconds of each model for each batch; models in turn, so that a busy moment meets them all."""
    taken = {(which, size): [] for which in range(len(models)) for size in inputs}
    with torch.inference_mode():
        for size, batch in inputs.items():
            for repeat in range(-2, REPEATS):  # two to warm up
                for which, model in enumerate(models):
                    began = time.perf_counter()
                    model(**batch)
                    if repeat >= 0:
                        taken[which, size].append(1000 * (time.perf_counter() - began))
    return [{size: statistics.median(taken[which, size]) for size in inputs} for which in range(len(models))]


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def check_same(saved, pruned, made):
    """The saved model must be the pruned one, as whoever loads it sees it; padding may differ."""

    def both(batch):
        return [model(**batch.inputs).logits for model in (pruned, saved)]

    with torch.inference_mode():
        for batch, (ours, theirs) in batches.each(list(made), both):
            if batch.labels.dim() > 1:
                ours, theirs = ours[batch.mask.bool()], theirs[batch.mask.bool()]
            same_classes = batch.labels.dim() > 1 or torch.equal(ours.argmax(-1), theirs.argmax(-1))
            if not same_classes or not torch.allclose(ours, theirs, atol=1e-4):
                raise RuntimeError(f"the saved model's logits are off by {(ours - theirs).abs().max():.2g}")


def seen(dataset_folder):
    """How many evaluation rows were trained or scored on."""
    lists = read_json(f"{dataset_folder}/splits.json")
    return len(set(lists["evaluation"]) & {*lists["train"], *lists["calibration"]})


def main(
    title,
    suite,
    dataset_folder,
    checkpoint,
    solution_file,
    heads_file,
    tokens,
    memory_mb,
    threads,
    folder,
    latency_file,
    metrics=(),
):
    solution, rows = read_json(solution_file), read(dataset_folder, "evaluation")
    whole, tokenizer = checkpoints.load(checkpoint, on="cpu")
    pruned, _ = checkpoints.load(checkpoint, on="cpu")
    heads = head_map(pruned)
    if solution["pruned_slots"]:
        surgery.prune(pruned, heads, [tuple(slot) for slot in solution["pruned_slots"]])
    made = batches.make(tokenizer, rows, token_budget(tokens, whole, heads, memory_mb), what="evaluation rows")
    with atomic(folder) as temporary:
        folders.save(temporary, pruned, heads, tokenizer)
        saved = checkpoints.load_plain(temporary)
        check_same(saved, pruned, made)
        inputs, length = typical_batches(tokenizer, rows)
        times = latencies([whole, pruned], inputs)
        points = []
        for model, milliseconds, point in zip((whole, pruned), times, ("before", "after"), strict=True):
            measured = Evaluation(list(made), heads, wanted=metrics).accuracy(model)
            size, others = solution[point]["parameters"], {METRICS[m].title: v for m, v in measured.metrics.items()}
            points.append(cards.Point(measured.value, measured.correct, others, size, megabytes(size), milliseconds))
        facts = {
            "task": checkpoints.task_of(whole),
            "queries": heads.queries,
            "evaluated": measured.evaluated,
            "seen": seen(dataset_folder),
            "repeats": REPEATS,
            "processor": processor(),
            "threads": threads,
            "tokens": length,
            "classes": [whole.config.id2label[i] for i in range(whole.config.num_labels)],
            "transformers": checkpoints.TRANSFORMERS,
            "zeroed": not folders.as_it_is(pruned, heads),
        }
        card = cards.write(title, suite, solution, read_json(heads_file)["shared"], tuple(points), facts)
        (temporary / "README.md").write_text(card, encoding="utf-8")
    log.info(
        "accuracy %.3f -> %.3f, batch of 32 in %.0f -> %.0f ms",
        *(p.accuracy for p in points),
        *(p.milliseconds[32] for p in points),
    )
    write_json(
        latency_file,
        {"before": times[0], "after": times[1]}
        | {key: facts[key] for key in ("repeats", "processor", "threads", "tokens")},
    )


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} export")
    torch.set_num_threads(snakemake.params.threads)
    main(
        snakemake.params.title,
        snakemake.wildcards.suite,
        snakemake.params.dataset_folder,
        snakemake.input.checkpoint,
        snakemake.input.solution,
        snakemake.input.heads,
        snakemake.params.tokens,
        snakemake.params.memory_mb,
        snakemake.params.threads,
        snakemake.output.checkpoint,
        snakemake.output.latency,
        snakemake.params.metrics,
    )
