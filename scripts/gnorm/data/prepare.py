"""Makes the datasets of a suite: rows, index lists, and a summary to read first."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import datasets
import numpy as np

from gnorm.data import sources
from gnorm.data.rows import LISTS, NO_CLASS
from gnorm.errors import UserError
from gnorm.logs import log
from gnorm.shown import in_html, in_markdown


def make(
    dataset: dict, counts: dict, seed: int, tokens: Callable[[dict], int] | None = None
) -> tuple[datasets.Dataset, dict[str, list[int]], list[str]]:
    """Read all rows of a local dataset, and make its index lists and class names.

    The index lists are those of `LISTS`. A dataset for language models has no classes, and rows without a label.
    `tokens` counts the tokens of a row, if the tokenizer exists before the rows: rows that a model cannot use are then
    left out. Tokenizers that are trained here add two tokens of their own to every text.
    """
    rows, classes = sources.load(dataset["source"]).rows(dataset, counts, seed)
    rows, note = _usable(rows, tokens, 1 if classes else 2) if tokens else (rows, "")
    try:
        splits = split(rows["label"], counts, dataset["order"], seed)
    except UserError as error:
        if note:
            raise UserError(f"{error} ({note})") from None
        raise
    return rows, splits, classes


def _usable(rows: datasets.Dataset, tokens: Callable[[dict], int], least: int) -> tuple[datasets.Dataset, str]:
    """Keep rows of at least `least` tokens, numbered anew, and make a note about the others."""
    kept = [row for row in rows if tokens(row) >= least]
    if len(kept) == len(rows):
        return rows, ""
    short = "no token" if least == 1 else "fewer than 2 tokens, so none to predict"
    note = f"{len(rows) - len(kept)} of {len(rows)} rows have {short}: they are left out"
    if not kept:
        raise UserError(f"no row is left: {note}")
    log.warning("%s", note)
    return datasets.Dataset.from_list([row | {"row": i} for i, row in enumerate(kept)]), note


def remarks(rows: datasets.Dataset, splits: dict[str, list[int]]) -> list[str]:
    """List what a person should know about rows that are kept as they are."""
    texts = list(zip(rows["text"], rows["pair"], strict=True))
    notes = []
    blank = [i for i, (text, pair) in enumerate(texts) if not text.strip() and not (pair or "").strip()]
    if blank:
        notes.append(f"{len(blank)} rows have no text but spaces (the first is row {blank[0]}); they are kept")
    again = len(texts) - len(set(texts))
    if again:
        notes.append(f"{again} rows repeat the text of another; they are kept")
    for name in ("calibration", "train"):
        others = {texts[i] for i in set(splits[name]) - set(splits["evaluation"])}
        shared = sum(texts[i] in others for i in splits["evaluation"])
        if shared:
            notes.append(f"{shared} evaluation rows have the text of a {name} row")
    names = list(rows["label_name"])
    labels = {names[i] for i in splits["evaluation"]}
    if len(labels) == 1 and None not in labels:
        notes.append(f"all evaluation rows have the label {labels.pop()!r}: their accuracy says little")
    return notes


def model_classes(folder: str | Path) -> list[str]:
    """Read the names of a checkpoint's classes, in the order of its outputs."""
    names = sources.read_config(folder).get("id2label")
    if not names:
        path = Path(folder, "config.json")
        raise UserError(f"{path} does not name its classes (id2label): list `classes:` of the dataset in the suite")
    return [names[key] for key in sorted(names, key=int)]


def split(labels: list[int], counts: dict, order: str, seed: int) -> dict[str, list[int]]:
    """Draw index lists, disjoint except where the suite says "same" or `disjoint: false`.

    Where lists need not be disjoint, each has the first rows of the dataset that it can use. Rows that
    no class covers may be read by scores, but not evaluated or trained on. Rows that the evaluation has passed over
    are used last, or the scores would read little else.
    """
    rows = list(range(len(labels)))
    if order == "shuffled":
        random.Random(f"split {seed}").shuffle(rows)
    lists: dict[str, list[int]] = {}
    used: set[int] = set()
    passed: set[int] = set()
    for name, scored in (("evaluation", True), ("calibration", False), ("train", True)):
        if counts[name] == "same":
            continue
        usable = [i for i in rows if i not in used and not (scored and labels[i] == NO_CLASS)]
        chosen = sorted(usable, key=lambda i: i in passed)[: counts[name]]
        if len(chosen) < counts[name]:
            raise UserError(f"rows.{name} asks for {counts[name]} rows, but only {len(chosen)} are left for it")
        lists[name] = sorted(chosen)
        if counts["disjoint"]:
            used.update(chosen)
        if counts["disjoint"] and name == "evaluation":
            passed = set(rows[: rows.index(chosen[-1])]) - used
    if counts["evaluation"] == "same":
        lists["evaluation"] = [i for i in lists["calibration"] if labels[i] != NO_CLASS]
    if counts["entropy"] == "same":
        lists["entropy"] = lists["calibration"]
    else:  # evaluation rows come last: only a whole split needs them
        evaluated = set(lists["evaluation"]) if counts["disjoint"] else set()
        lists["entropy"] = _first(sorted(rows, key=lambda i: (i in evaluated, i in passed)), counts["entropy"])
    return {name: lists[name] for name in LISTS}


def _first(rows: list[int], count: int) -> list[int]:
    if count > len(rows):
        raise UserError(f"rows.entropy asks for {count} rows, but the dataset has {len(rows)}")
    return sorted(rows[:count])


def facts(classes: list[str], labels: list[int | None], splits: dict[str, list[int]]) -> dict[str, Any]:
    """Collect what jobs ask of a dataset beside its rows: the index lists, classes, and two facts of the evaluation.

    They are the share of its most common class (`majority`), and how many rows are also trained or scored on (`seen`).
    """
    evaluated, used = splits["evaluation"], {*splits["train"], *splits["calibration"]}
    common = majority(labels[i] for i in evaluated)
    return {"classes": classes, "majority": common, "seen": len(used.intersection(evaluated)), **splits}


def majority(labels: Iterable[int | None]) -> float | None:
    """Measure the share of the most common class; None for rows without classes."""
    counts = Counter(label for label in labels if label not in (None, NO_CLASS))
    return max(counts.values()) / counts.total() if counts else None


def page(name: str, text: str) -> str:
    """Make a page of a summary: the report shows pages in place, Markdown only as a download."""
    return f'<!doctype html><meta charset="utf-8"><title>{in_html(name)}</title><pre>{in_html(text)}</pre>\n'


def summary(
    name: str,
    rows: datasets.Dataset,
    splits: dict,
    lengths: list[int],
    limit: int,
    show: Callable[[str], str] = in_markdown,
) -> str:
    """Write row counts, label balance, token lengths and first rows as Markdown; `show` writes labels and texts."""
    parts = [f"# {name}: dataset\n", "| rows | count |", "|---|---:|", f"| all | {len(rows)} |"]
    parts += [f"| {which} | {len(indices)} |" for which, indices in splits.items()]
    shared = set(splits["calibration"]) & set(splits["evaluation"])
    parts.append(f"\nCalibration and evaluation share {len(shared)} rows.\n")
    every, evaluated = rows["label_name"], Counter(rows[i]["label_name"] for i in splits["evaluation"])
    classes = dict(zip(every, rows["label"], strict=True))
    if None in classes:
        parts.append("No labels: what is predicted is each next token.")
    else:
        parts += ["## Labels\n", "| label | class | all | evaluation |", "|---|---:|---:|---:|"]
        for label, count in sorted(Counter(every).items(), key=lambda item: (classes[item[0]], item[0])):
            number = "left out" if classes[label] == NO_CLASS else classes[label]
            parts.append(f"| {show(label)} | {number} | {count} | {evaluated[label]} |")
    parts += ["\n## Tokens a row\n", "```"]
    edges = np.histogram_bin_edges(lengths, bins=min(12, max(1, len(set(lengths)))))
    heights, _ = np.histogram(lengths, edges)
    for low, high, height in zip(edges, edges[1:], heights, strict=False):
        bar = "#" * int(np.ceil(50 * height / max(heights)))
        parts.append(f"{low:6.0f} - {high:4.0f} {height:7d} {bar}")
    cut = sum(length > limit for length in lengths)
    parts += ["```", f"\nShortest {min(lengths)}, median {int(np.median(lengths))}, longest {max(lengths)} tokens; "]
    parts += [f"{cut} rows are longer than the {limit} tokens the model reads and are cut.\n"]
    parts += ["## First rows\n", "| row | label | text |", "|---:|---|---|"]
    for row in rows.select(range(min(8, len(rows)))):
        text = row["text"] if row["pair"] is None else f"{row['text']} / {row['pair']}"
        parts.append(f"| {row['row']} | {show(row['label_name'] or '')} | {show(text[:200])} |")
    return "\n".join(parts) + "\n"
