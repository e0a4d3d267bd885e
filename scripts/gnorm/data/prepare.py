"""Making the datasets of a suite: rows, index lists, and what a person wants to see of them first."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import datasets
import numpy as np

from gnorm.data import corpora, records
from gnorm.data.rows import NO_CLASS
from gnorm.errors import UserError
from gnorm.files import read_json
from gnorm.logs import log

LISTS = ("train", "calibration", "entropy", "evaluation")


def make(
    dataset: dict, counts: dict, seed: int, tokens: Callable[[dict], int] | None = None
) -> tuple[datasets.Dataset, dict[str, list[int]], list[str]]:
    """All rows of a suite entry, its index lists and its class names.

    The index lists are those of `LISTS`. A dataset for language models has no classes, and rows without a label.
    `tokens` counts those of a row, if there is a tokenizer before there are rows: rows that a model cannot use are then
    left out. Tokenizers that are trained here frame every text with two tokens of their own.
    """
    if dataset["source"] == "generated":
        rows = _generated(dataset, counts, seed)
        classes = list(corpora.load(dataset["corpus"]).LABELS)
    else:
        rows = _from_file(dataset)
        classes = [str(name) for name in dataset.get("classes") or ()]
    rows, said = _usable(rows, tokens, 1 if classes else 2) if tokens else (rows, "")
    try:
        splits = split(rows["label"], counts, dataset["order"], seed)
    except UserError as error:
        if said:
            raise UserError(f"{error} ({said})") from None
        raise
    return rows, splits, classes


def _usable(rows: datasets.Dataset, tokens: Callable[[dict], int], least: int) -> tuple[datasets.Dataset, str]:
    """Rows of at least so many tokens, numbered anew, and what is to be said of the others."""
    kept = [row for row in rows if tokens(row) >= least]
    if len(kept) == len(rows):
        return rows, ""
    short = "no token" if least == 1 else "fewer than 2 tokens, so none to predict"
    said = f"{len(rows) - len(kept)} of {len(rows)} rows have {short}: they are left out"
    if not kept:
        raise UserError(f"no row is left: {said}")
    log.warning("%s", said)
    return datasets.Dataset.from_list([row | {"row": i} for i, row in enumerate(kept)]), said


def _generated(dataset: dict, counts: dict, seed: int) -> datasets.Dataset:
    corpus = corpora.load(dataset["corpus"])
    needed = sum(counts[name] for name in LISTS if counts[name] != "same")
    # Rows without a class cannot be evaluated: draw enough that the rest still suffice.
    names = corpus.LABELS + getattr(corpus, "UNSCORED", ())
    if names:
        needed = int(needed * len(names) / len(corpus.LABELS) * 1.05) + 10
    rows = corpora.draw(dataset["corpus"], needed, seed)
    classes: dict = {name: i for i, name in enumerate(corpus.LABELS)} or {None: None}
    return datasets.Dataset.from_list(
        [{"row": i, **row, "label": classes.get(row["label_name"], NO_CLASS)} for i, row in enumerate(rows)]
    )


def _from_file(dataset: dict) -> datasets.Dataset:
    path = Path(dataset["path"])
    table = records.read(path, dataset.get("columns"), dataset.get("separator"))
    for column in filter(None, (dataset["text"], dataset.get("label"), dataset["pair"])):
        if column not in table.column_names:
            have = ", ".join(table.column_names)
            raise UserError(f"dataset {path} has no column {column!r}; it has {have}")
    classes = {str(name): i for i, name in enumerate(dataset.get("classes") or ())}
    unscored = {str(name) for name in dataset["unscored"]}
    rows, seen = [], set()
    for i, record in enumerate(table):
        name = _label_name(record[dataset["label"]], dataset, f"dataset {path}, row {i}") if classes else None
        if classes and name is None:
            continue
        if classes and name not in classes and name not in unscored:
            known = ", ".join(classes)
            raise UserError(
                f"dataset {path}, row {i}: label {name!r} is none of the classes ({known}); "
                "add it to `classes:` or to `unscored:`"
            )
        text, pair = record[dataset["text"]], record[dataset["pair"]] if dataset["pair"] else None
        if text is None or (dataset["pair"] and pair is None):
            raise UserError(f"dataset {path}, row {i}: the text is missing")
        text, pair = str(text), None if pair is None else str(pair)  # a column of numbers is text too
        if dataset.get("distinct") and (text, pair) in seen:
            continue
        seen.add((text, pair))
        label = classes.get(name, NO_CLASS) if classes else None
        rows.append({"row": len(rows), "text": text, "pair": pair, "label_name": name, "label": label})
    log.info("%d of %d rows are taken", len(rows), len(table))
    return datasets.Dataset.from_list(rows)


def _label_name(label: object, dataset: dict, where: str) -> str | None:
    """What a row is labelled; of a score the class that its sign says, none for one in the neutral band."""
    if label is None:
        raise UserError(f"{where}: the label is missing")
    score = str(label)
    if not dataset.get("neutral"):
        return score
    try:
        value = float(score)
    except ValueError as error:
        raise UserError(f"{where}: label {score!r} is not a number, which `neutral:` needs") from error
    below, above = map(str, dataset["classes"])
    return None if not abs(value) >= dataset["neutral"] else above if value > 0 else below


def remarks(rows: datasets.Dataset, splits: dict[str, list[int]]) -> list[str]:
    """What a person should know of rows that are kept as they are."""
    texts = list(zip(rows["text"], rows["pair"], strict=True))
    found = []
    blank = [i for i, (text, pair) in enumerate(texts) if not text.strip() and not (pair or "").strip()]
    if blank:
        found.append(f"{len(blank)} rows have no text but spaces (the first is row {blank[0]}); they are kept")
    again = len(texts) - len(set(texts))
    if again:
        found.append(f"{again} rows repeat the text of another; they are kept")
    for name in ("calibration", "train"):
        others = {texts[i] for i in set(splits[name]) - set(splits["evaluation"])}
        shared = sum(texts[i] in others for i in splits["evaluation"])
        if shared:
            found.append(f"{shared} evaluation rows have the text of a {name} row")
    names = list(rows["label_name"])
    labels = {names[i] for i in splits["evaluation"]}
    if len(labels) == 1 and None not in labels:
        found.append(f"all evaluation rows have the label {labels.pop()!r}: their accuracy says little")
    return found


def model_classes(folder: str | Path) -> list[str]:
    """What a checkpoint calls its classes, in the order of its outputs."""
    path = Path(folder, "config.json")
    if not path.exists():
        raise UserError(f"{folder} holds no model saved by save_pretrained (config.json is missing)")
    names = read_json(path).get("id2label")
    if not names:
        raise UserError(f"{path} does not name its classes (id2label): list `classes:` of the dataset in the suite")
    return [names[key] for key in sorted(names, key=int)]


def split(labels: list[int], counts: dict, order: str, seed: int) -> dict[str, list[int]]:
    """Index lists, disjoint except where the suite says "same" or `disjoint: false`.

    Where lists need not be disjoint, each has the first rows of the dataset that it can use. Rows that
    no class covers may be read by scores, but not evaluated or trained on; those that the evaluation has passed
    over are the last to be taken, or the scores would read little else.
    """
    rows = list(range(len(labels)))
    if order == "shuffled":
        random.Random(f"split {seed}").shuffle(rows)
    lists: dict[str, list[int]] = {}
    taken: set[int] = set()
    passed: set[int] = set()
    for name, scored in (("evaluation", True), ("calibration", False), ("train", True)):
        if counts[name] == "same":
            continue
        usable = [i for i in rows if i not in taken and not (scored and labels[i] == NO_CLASS)]
        chosen = sorted(usable, key=lambda i: i in passed)[: counts[name]]
        if len(chosen) < counts[name]:
            raise UserError(f"rows.{name} asks for {counts[name]} rows, but only {len(chosen)} are left for it")
        lists[name] = sorted(chosen)
        if counts["disjoint"]:
            taken.update(chosen)
        if counts["disjoint"] and name == "evaluation":
            passed = set(rows[: rows.index(chosen[-1])]) - taken
    if counts["evaluation"] == "same":
        lists["evaluation"] = [i for i in lists["calibration"] if labels[i] != NO_CLASS]
    if counts["entropy"] == "same":
        lists["entropy"] = lists["calibration"]
    else:  # evaluation rows last: only a whole split needs them
        evaluated = set(lists["evaluation"]) if counts["disjoint"] else set()
        lists["entropy"] = _first(sorted(rows, key=lambda i: (i in evaluated, i in passed)), counts["entropy"])
    return {name: lists[name] for name in LISTS}


def _first(rows: list[int], count: int) -> list[int]:
    if count > len(rows):
        raise UserError(f"rows.entropy asks for {count} rows, but the dataset has {len(rows)}")
    return sorted(rows[:count])


def summary(name: str, rows: datasets.Dataset, splits: dict, lengths: list[int], limit: int) -> str:
    """Row counts, label balance, token lengths and first rows, as Markdown."""
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
            parts.append(f"| {label} | {number} | {count} | {evaluated[label]} |")
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
        parts.append(f"| {row['row']} | {row['label_name'] or ''} | {text[:200].replace('|', ' ')} |")
    return "\n".join(parts) + "\n"
