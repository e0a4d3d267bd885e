"""Reads the records of a CSV, JSON lines, parquet or tab-separated text file unchanged."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet

from gnorm.data import formats
from gnorm.errors import UserError
from gnorm.files import LIMIT, ROOM, atomic, within_memory

datasets.disable_progress_bars()
csv.field_size_limit(2**31 - 1)  # a text may be as long as it likes
NOT_PLAIN = {bytes: "bytes", list: "a list", dict: "an object"}  # in a record; as text each would look like Python
MOST_ROWS = 100_000_000  # of a parquet file
AT_ONCE = 1_024  # rows that are unpacked together
ENCODING = "utf-8-sig"  # with or without the mark that some programs put in front


def read(
    path: str | Path,
    columns: Sequence[str] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    plain: Sequence[str] = (),
) -> datasets.Dataset:
    """Read all records; `columns` names those of a text file without a header line.

    What a text file holds stays text as it is written, down to `007` and `NA`. An empty cell of a CSV file and a
    null are missing. The columns `plain` must not hold bytes, lists or objects; another column of JSON that does
    becomes one of lists, each of one JSON text.
    """
    path, where = Path(path), f"dataset {path}"
    formats.check(path.name, {"columns": columns, "separator": separator, "encoding": encoding}, where)
    if not path.exists():
        raise UserError(f"{where} does not exist; set `path:` of the dataset in the suite")
    try:
        if path.suffix == ".parquet":
            table = datasets.Dataset(_parquet(path, plain))
        else:
            with open(path, encoding=ENCODING if encoding in (None, "utf-8") else encoding, newline="") as file:
                if path.suffix in formats.SEPARATORS:
                    names, records = _separated(file, where, columns, separator or formats.SEPARATORS[path.suffix])
                else:
                    names, records = _objects(file, where, plain)
            table = datasets.Dataset.from_dict({name: [record.get(name) for record in records] for name in names})
    except UnicodeError as error:
        found = f"it is not in {encoding or 'UTF-8'} ({reason(error)})"
        advice = "correct `encoding:`" if encoding else f"say what it is in, such as `encoding: {_likely(path)}`"
        raise UserError(f"{where} cannot be read: {found}; {advice}") from error
    except RecursionError as error:
        raise UserError(f"{where} cannot be read: its lists and objects lie too deep in each other") from error
    except (json.JSONDecodeError, pyarrow.ArrowException) as error:
        raise UserError(f"{where} cannot be read ({reason(error)})") from error
    if not len(table):
        raise UserError(f"{where} has no rows, only the columns {', '.join(table.column_names)}")
    return table


def _likely(path: Path) -> str:
    """Guess what a text file that is not in UTF-8 is written in, by the mark that UTF-16 begins with."""
    with open(path, "rb") as file:
        return "utf-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "windows-1252"


def _parquet(path: Path, plain: Sequence[str]) -> pyarrow.Table:
    where = f"dataset {path}"
    with open(path, "rb") as file, within_memory(2 * LIMIT + ROOM):  # a name is not always a path to the library
        opened = pyarrow.parquet.ParquetFile(file)
        _unique(opened.schema_arrow.names, where)
        table = pyarrow.Table.from_batches(batches(opened, where), opened.schema_arrow)
        table = table.replace_schema_metadata()  # it could declare paths to be images, to be opened
    for name in set(plain) & {*table.column_names}:
        kind, types = table.schema.field(name).type, pyarrow.types
        if types.is_temporal(kind):
            raise UserError(
                f"dataset {path}: the column {name!r} holds {kind}, not text as it was written: name another, or save "
                "it as text"
            )
        if not (types.is_string(kind) or types.is_large_string(kind) or types.is_primitive(kind)):
            for i, value in enumerate(table[name].to_pylist()):
                _check_plain(value, f"dataset {path}, row {i}", name)
    return table


def batches(opened: pyarrow.parquet.ParquetFile, where: str) -> Iterator[pyarrow.RecordBatch]:
    """Unpack rows piece by piece, as long as they are not too many: a short file can stand for billions."""
    told = opened.metadata
    claimed = sum(told.row_group(i).total_byte_size for i in range(told.num_row_groups))
    check_size(claimed, told.num_rows, where)
    size = rows = 0
    for batch in opened.iter_batches(AT_ONCE):
        size, rows = size + batch.nbytes, rows + len(batch)  # what it says of itself may be wrong
        check_size(size, rows, where)
        yield batch


def check_size(size: int, rows: int, where: str) -> None:
    """Raise a `UserError` about a file with more bytes, once it is unpacked, or more rows than are read."""
    if size > LIMIT or rows > MOST_ROWS:
        more = f"{LIMIT:,} bytes" if size > LIMIT else f"{MOST_ROWS:,} rows"
        raise UserError(f"{where} holds more than {more}: it is not read")


def _check_plain(value: Any, where: str, column: str) -> None:
    kind = next((said for kinds, said in NOT_PLAIN.items() if isinstance(value, kinds)), None)
    if kind:
        raise UserError(f"{where}: the column {column!r} holds {kind}, not text: name another, or correct the file")


def _unique(names: Sequence[str], where: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"{where} has the column {twice[0]!r} twice: remove one, or rename it")


def _separated(
    file: io.TextIOBase, where: str, columns: Sequence[str] | None, separator: str
) -> tuple[list[str], list[dict[str, str | None]]]:
    """Read lines of columns. Between tabs a quote is an ordinary character."""
    quoting = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    lines = csv.reader(file, delimiter=separator, quoting=quoting, strict=True)
    names, records = list(columns or ()), []
    for cells in _lines(lines, where):
        if not cells:  # a blank line
            continue
        if not names:
            names = cells
            _unique(names, where)
            continue
        if len(cells) != len(names):
            mismatch = f"{len(cells)} columns instead of the {len(names)} of {', '.join(names)}"
            advice = hint(names, separator) or "; correct `columns:` or `separator:`"
            raise UserError(f"{where}, line {lines.line_num}: {mismatch}{advice}")
        records.append({name: cell or None for name, cell in zip(names, cells, strict=True)})
    if not names:
        raise UserError(f"{where} cannot be read: it is empty")
    return names, records


def _lines(lines: Any, where: str) -> Iterator[list[str]]:
    """Go through the rows of a `csv.reader`; of one that cannot be read, name the line that it begins in."""
    while True:
        first = lines.line_num + 1
        try:
            yield next(lines)
        except StopIteration:
            return
        except csv.Error as error:
            advice = "write a quote inside quotes twice, and close every quote"
            raise UserError(f"{where}, line {first} cannot be read ({reason(error)}): {advice}") from error


def hint(names: Sequence[str], separator: str) -> str:
    """Advise on what else may separate the columns of a file with this header, if anything does."""
    found = [other for other in ";\t|," if other != separator and any(other in name for name in names)]
    return f"; if {found[0]!r} separates columns, set `separator: {json.dumps(found[0])}`" if found else ""


def _objects(
    file: io.TextIOBase, where: str, plain: Sequence[str]
) -> tuple[list[str], list[dict[str, str | list[str] | None]]]:
    """Read JSON: an object a line, or one list of objects. Numbers and truth values stay as they are written."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        _unique([name for name, _ in pairs], where)
        return dict(pairs)

    decoder = json.JSONDecoder(object_pairs_hook=unique, parse_float=str, parse_int=str, parse_constant=str)
    names: dict[str, None] = {}
    nested: set[str] = set()
    records = []
    for line, record in _decoded(file.read(), decoder, where):
        if not isinstance(record, dict):
            raise UserError(f"{where} cannot be read: {line} is no object of columns ({str(record)[:40]!r})")
        names |= dict.fromkeys(record)
        for name, value in record.items():
            _check_characters(name, value, f"{where}, {line}")
            if name in plain:
                _check_plain(value, f"{where}, {line}", name)
            if isinstance(value, list | dict):
                nested.add(name)
        records.append({name: _written(value) for name, value in record.items()})
    for record in records:  # a column of lists and texts is no column
        record |= {name: [record[name]] for name in nested & {*record} if record[name] is not None}
    return list(names), records


def _check_characters(name: str, value: Any, where: str) -> None:
    """Refuse half of a character: JSON can spell it, and no file can hold it."""
    for said, text in (("its name", name), ("it", value if isinstance(value, str) else "")):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(text[error.start]):04x}"
            raise UserError(
                f"{where}: the column {name!r} cannot be read: {said} has {half}, half of a surrogate pair, which is "
                "no character alone: write both halves, or leave it out"
            ) from error


def _written(value: Any) -> str | None:
    """Turn what JSON holds back into the text that stands there."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _decoded(text: str, decoder: json.JSONDecoder, where: str) -> Iterator[tuple[str, Any]]:
    if text.lstrip().startswith("["):
        yield from ((f"item {i}", item) for i, item in enumerate(decoder.decode(text)))
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield f"line {number}", decoder.decode(line.strip())
            except json.JSONDecodeError as error:
                found = f"line {number} is no JSON ({error.msg})"
                if _goes_on("\n".join(text.split("\n")[number - 1 :]), decoder):
                    found = f"the object of line {number} goes on in the next: write one object a line, or a list"
                raise UserError(f"{where} cannot be read: {found}") from error


def _goes_on(text: str, decoder: json.JSONDecoder) -> bool:
    """Whether text begins with JSON over several lines."""
    try:
        _, end = decoder.raw_decode(text.lstrip())
    except json.JSONDecodeError:
        return False
    return "\n" in text.lstrip()[:end]


def reason(error: BaseException) -> str:
    """Describe the first cause of an error in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__


def write(records: datasets.Dataset, path: str | Path) -> None:
    buffer = io.BytesIO()
    records.to_parquet(buffer)
    with atomic(path) as temporary:  # Python writes the file: the library aborts the whole process if the disk is full
        temporary.write_bytes(buffer.getbuffer())
