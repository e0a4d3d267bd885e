"""Datasets in a file on this machine: columns of texts and labels."""

from __future__ import annotations

from pathlib import Path

from gnorm.data import formats
from gnorm.data.sources import check_dates, check_path
from gnorm.errors import UserError
from gnorm.logs import log


def check(entry: dict, model: dict, where: str) -> None:
    check_path(entry["path"], f"{where}.path")
    if not Path(entry["path"]).is_file():
        raise UserError(f"{where}.path: there is no file {entry['path']}")
    formats.check(entry["path"], entry, where)
    check_dates(inputs(entry), f"{where}.path")


def inputs(entry: dict) -> list[str]:
    return [entry["path"]]


def rows(entry: dict, counts: dict, seed: int):
    """Read all usable rows of the file, as a `datasets.Dataset`, and the names of their classes."""
    import datasets

    from gnorm.data import records
    from gnorm.data.rows import NO_CLASS

    path = Path(entry["path"])
    used = [column for column in (entry["text"], entry.get("label"), entry["pair"]) if column]
    table = records.read(path, *(entry.get(key) for key in formats.SETTINGS), plain=used)
    for column in used:
        if column not in table.column_names:
            have = ", ".join(table.column_names)
            raise UserError(f"dataset {path} has no column {column!r}; it has {have}{_advice(entry, table)}")
    names = [str(name) for name in entry.get("classes") or ()]
    if len({*names}) < len(names):
        raise UserError(f"dataset {path}: two of its classes have one name ({', '.join(names)}); list other `classes:`")
    quotes = (
        "" if all(isinstance(name, str) for name in entry.get("classes") or ()) else ", in quotes as it stands there"
    )
    classes = {name: i for i, name in enumerate(names)}
    unscored = {str(name) for name in entry["unscored"]}
    for i, label in enumerate(table[entry["label"]] if classes else ()):  # a gap makes pandas write 1 as 1.0
        if label is None or label != label:
            raise UserError(f"dataset {path}, row {i}: the label is missing")
    chosen, seen = [], set()
    for i, record in enumerate(table):
        name = _label_name(record[entry["label"]], entry, f"dataset {path}, row {i}") if classes else None
        if classes and name is None:
            continue
        if classes and name not in classes and name not in unscored:
            known = ", ".join(classes)
            raise UserError(
                f"dataset {path}, row {i}: label {name!r} is none of the classes ({known}); "
                f"add it to `classes:` or to `unscored:`{quotes}"
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


def _advice(entry: dict, table) -> str:
    """Advise on what a missing column of a text file may come from."""
    from gnorm.data import records

    suffix = Path(entry["path"]).suffix
    if suffix not in formats.SEPARATORS or entry.get("columns"):
        return ""
    separated = records.hint(table.column_names, entry.get("separator") or formats.SEPARATORS[suffix])
    return separated or "; if its first line is no header, name them in `columns:`"


def _label_name(label: object, entry: dict, where: str) -> str | None:
    """Get the label of a row. A score gives the class of its sign, or None in the neutral band."""
    whole = isinstance(label, float) and label.is_integer()  # as a column of integers that once had a gap
    score = str(int(label) if whole and str(label) not in map(str, entry["classes"]) else label)
    if not entry.get("neutral"):
        return score
    try:
        value = float(score)
    except ValueError as error:
        raise UserError(f"{where}: label {score!r} is not a number, which `neutral:` needs") from error
    if value != value:
        raise UserError(f"{where}: the label is missing")
    below, above = map(str, entry["classes"])
    return None if not abs(value) >= entry["neutral"] else above if value > 0 else below
