"""The pruned solution as checkpoints that transformers loads, with a card of what they are."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from gnorm.engine import batches
from gnorm.engine.batches import Batch
from gnorm.engine.metrics import METRICS
from gnorm.hardware import processor
from gnorm.logs import log
from gnorm.models import checkpoints, surgery, versions
from gnorm.models import export as folders
from gnorm.pages import cards
from gnorm.workbench import Workbench

SIZES = (1, 32)
REPEATS = 20


def typical_batches(tokenizer: PreTrainedTokenizerBase, rows: Sequence[dict]) -> tuple[dict[int, Mapping], int]:
    """A batch of each size, of rows of median length, and that length."""
    encoded = sorted(batches.encode(tokenizer, rows), key=lambda row: len(row["input_ids"]))
    median = encoded[len(encoded) // 2]
    return {size: tokenizer.pad([median] * size, return_tensors="pt") for size in SIZES}, len(median["input_ids"])


def latencies(models: Sequence[nn.Module], inputs: Mapping[int, Mapping]) -> list[dict[int, float]]:
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


def check_same(saved: nn.Module, pruned: nn.Module, made: Sequence[Batch]) -> None:
    """The saved model must be the pruned one, as whoever loads it sees it; padding may differ."""

    def both(batch: Batch) -> list[torch.Tensor]:
        return [model(**batch.inputs).logits for model in (pruned, saved)]

    with torch.inference_mode():
        for batch, (ours, theirs) in batches.each(list(made), both):
            if batch.labels.dim() > 1:
                ours, theirs = ours[batch.mask.bool()], theirs[batch.mask.bool()]
            same_classes = batch.labels.dim() > 1 or torch.equal(ours.argmax(-1), theirs.argmax(-1))
            if not same_classes or not torch.allclose(ours, theirs, atol=1e-4):
                raise RuntimeError(f"the saved model's logits are off by {(ours - theirs).abs().max():.2g}")


def _measured(point: Mapping[str, Any]) -> dict[str, Any]:
    """What a card says of the model before or after pruning, as the solution has it."""
    metrics = {METRICS[name].title: value for name, value in point["metrics"].items()}
    return {key: point[key] for key in ("accuracy", "correct", "parameters", "megabytes")} | {"metrics": metrics}


def export(
    bench: Workbench,
    *,
    solution: Mapping[str, Any],
    shared: list[list[int]],
    title: str,
    suite: str,
    seen: int,
    compact: Path,
    dense: Path,
) -> dict[str, Any]:
    """Save the pruned model in two forms, each with its card; returns how long the whole and the pruned model take.

    `shared` are the layers that share weights, `seen` how many evaluation rows were trained or scored on.
    """
    heads, whole, pruned = bench.heads, bench.model, bench.copy()
    if solution["pruned_slots"]:
        surgery.prune(pruned, heads, [tuple(slot) for slot in solution["pruned_slots"]])
    made = bench.batches("evaluation")
    for folder, save in ((compact, folders.save), (dense, folders.save_dense)):
        save(folder, pruned, bench.tokenizer)
        check_same(folders.as_plain(folder), pruned, made)
    inputs, length = typical_batches(bench.tokenizer, bench.rows("evaluation"))
    times = latencies([whole, pruned], inputs)
    points = [
        cards.Point(milliseconds=milliseconds, **_measured(solution[when]))
        for milliseconds, when in zip(times, ("before", "after"), strict=True)
    ]
    clock = {
        "repeats": REPEATS,
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "tokens": length,
    }
    facts = clock | {
        "task": checkpoints.task_of(whole),
        "queries": heads.queries,
        "evaluated": solution["before"]["evaluated"],
        "seen": seen,
        "classes": [whole.config.id2label[i] for i in range(whole.config.num_labels)],
        "tokenizer": "PreTrainedTokenizerFast" if bench.tokenizer.is_fast else "AutoTokenizer",
        "stored": str(checkpoints.stored_type(compact)).removeprefix("torch."),
        "transformers": versions.VERSION,
        "supported": versions.SUPPORTED,
    }
    card = cards.write(title, suite, solution, shared, tuple(points), facts)
    for temporary in (compact, dense):  # until the job has written all of it
        Path(temporary, "README.md").write_text(card, encoding="utf-8")
    log.info(
        "accuracy %.3f -> %.3f, batch of 32 in %.0f -> %.0f ms",
        *(p.accuracy for p in points),
        *(p.milliseconds[32] for p in points),
    )
    return {"before": times[0], "after": times[1]} | clock
