"""Datasets in a file on this machine: columns of texts and labels."""

from __future__ import annotations

from pathlib import Path

from gnorm.errors import UserError
from gnorm.logs import log


def check(entry: dict, model: dict, where: str) -> None:
    if not entry["path"] or not entry["path"].isprintable():
        raise UserError(f"{where}.path: {entry['path']!r} is no path")
    if not Path(entry["path"]).is_file():
        raise UserError(f"{where}.path: there is no file {entry['path']}")


def inputs(entry: dict) -> list[str]:
    return [entry["path"]]


def rows(entry: dict, counts: dict, seed: int):
    """Read all usable rows of the file, as a `datasets.Dataset`, and the names of their classes."""
    import datasets

    from gnorm.data import records
    from gnorm.data.rows import NO_CLASS

    path = Path(entry["path"])
    table = records.read(path, entry.get("columns"), entry.get("separator"))
    for column in filter(None, (entry["text"], entry.get("label"), entry["pair"])):
        if column not in table.column_names:
            have = ", ".join(table.column_names)
            raise UserError(f"dataset {path} has no column {column!r}; it has {have}")
    names = [str(name) for name in entry.get("classes") or ()]
    classes = {name: i for i, name in enumerate(names)}
    unscored = {str(name) for name in entry["unscored"]}
    chosen, seen = [], set()
    for i, record in enumerate(table):
        name = _label_name(record[entry["label"]], entry, f"dataset {path}, row {i}") if classes else None
        if classes and name is None:
            continue
        if classes and name not in classes and name not in unscored:
            known = ", ".join(classes)
            raise UserError(
                f"dataset {path}, row {i}: label {name!r} is none of the classes ({known}); "
                "add it to `classes:` or to `unscored:`"
            )
        text, pair = record[entry["text"]], record[entry["pair"]] if entry["pair"] else None
        if text is None or (entry["pair"] and pair is None):
            raise UserError(f"dataset {path}, row {i}: the text is missing")
        text, pair = str(text), None if pair is None else str(pair)  # a column of numbers is text too
        if entry.get("distinct") and (text, pair) in seen:
            continue
        seen.add((text, pair))
        label = classes.get(name, NO_CLASS) if classes else None
        chosen.append({"row": len(chosen), "text": text, "pair": pair, "label_name": name, "label": label})
    log.info("%d of %d rows are taken", len(chosen), len(table))
    return datasets.Dataset.from_list(chosen), names


def _label_name(label: object, entry: dict, where: str) -> str | None:
    """Get the label of a row. A score gives the class of its sign, or None in the neutral band."""
    if label is None:
        raise UserError(f"{where}: the label is missing")
    score = str(label)
    if not entry.get("neutral"):
        return score
    try:
        value = float(score)
    except ValueError as error:
        raise UserError(f"{where}: label {score!r} is not a number, which `neutral:` needs") from error
    below, above = map(str, entry["classes"])
    return None if not abs(value) >= entry["neutral"] else above if value > 0 else below
