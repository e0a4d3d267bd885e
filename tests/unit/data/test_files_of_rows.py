"""Files of rows are read as they are written: no text is taken for a number, and no path for a pattern."""

import json
import re

import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from gnorm.data import prepare, records
from gnorm.errors import UserError

WRITTEN = ["007", "0.50", "1e3", "NA", "None", "null", "nan", "True", "2024-01-01", "1,5", " x ", "-"]
COUNTS = {"train": 0, "calibration": 2, "entropy": "same", "evaluation": 2, "disjoint": True}
ENTRY = {"source": "file", "text": "text", "pair": None, "label": "label", "unscored": [], "order": "as_is"}


def write(path, texts, labels):
    table = pd.DataFrame({"text": texts, "label": labels}, dtype=str)
    if path.suffix == ".parquet":
        table.to_parquet(path)
    elif path.suffix in (".json", ".jsonl"):
        path.write_text(table.to_json(orient="records", lines=path.suffix == ".jsonl"))
    else:
        table.to_csv(path, index=False, sep="," if path.suffix == ".csv" else "\t")
    return path


SUFFIXES = ["csv", "tsv", "txt", "jsonl", "json", "parquet"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.fault("texts or labels are `007`, `0.50`, `NA`, `None`, `null` or a date", "kept as they are written")
def test_texts_and_labels_are_as_written(tmp_path, suffix, record_property):
    for texts in (WRITTEN, ["007", "0.50", "12"], ["NA", "None", "null"], ["2024-01-01", "2024-01-02"]):
        path = write(tmp_path / f"rows.{suffix}", texts, texts)
        rows, _, classes = prepare.make(
            ENTRY | {"path": str(path), "classes": texts}, COUNTS | {"evaluation": "same"}, 0
        )
        assert rows["text"] == rows["label_name"] == classes == texts
        assert rows["label"] == list(range(len(texts)))
    record_property("tried", 4)


def test_numbers_of_json_are_the_text_that_stands_there(tmp_path):
    (tmp_path / "rows.jsonl").write_text(
        '{"text": 0.50, "label": 10000000000000000000001}\n{"text": "a", "label": null}\n'
    )
    table = records.read(tmp_path / "rows.jsonl")
    assert table["text"] == ["0.50", "a"] and table["label"] == ["10000000000000000000001", None]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_integer_labels_with_one_missing_blame_the_row_without(tmp_path, suffix):
    table = pd.DataFrame({"text": ["a", "b", "c", "d"], "label": pd.array([0, 1, None, 1], dtype="Int64")})
    path = tmp_path / f"rows.{suffix}"
    if suffix == "csv":
        table.to_csv(path, index=False)
    elif suffix == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.astype({"label": float}).to_parquet(path)  # as pandas reads such a column
    with pytest.raises(UserError, match="row 2: the label is missing"):
        prepare.make(ENTRY | {"path": str(path), "classes": [0, 1]}, COUNTS, 0)
    if suffix == "parquet":
        table.astype({"label": float}).dropna().to_parquet(path)
        rows, *_ = prepare.make(ENTRY | {"path": str(path), "classes": [0, 1]}, COUNTS | {"evaluation": 1}, 0)
        assert rows["label"] == [0, 1, 1] and rows["label_name"] == ["0", "1", "1"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.fault(
    "a dataset's path has *, ? or [1] in it, and other files match", "it is a path: its own rows are read"
)
def test_a_path_is_no_pattern(tmp_path, suffix, record_property):
    names = ["a[1]", "d*", "d?", "**"]
    for name in ("a1", "d1", "d2", "dx"):
        write(tmp_path / f"{name}.{suffix}", [name] * 4, ["x", "y"] * 2)
    for name in names:
        path = write(tmp_path / f"{name}.{suffix}", [f"own {name}"] * 4, ["x", "y"] * 2)
        assert set(records.read(path)["text"]) == {f"own {name}"}
        path.unlink()
        with pytest.raises(UserError, match=f"^dataset {re.escape(str(path))} does not exist"):
            records.read(path)
    record_property("tried", 2 * len(names))


TWICE = {
    "csv": "text,label,text\na,x,b\n",
    "tsv": "text\tlabel\ttext\na\tx\tb\n",
    "jsonl": '{"text": "a", "label": "x", "text": "b"}\n',
    "json": '[{"text": "a", "label": "x", "text": "b"}]',
}


@pytest.mark.parametrize("suffix", [*TWICE, "parquet"])
@pytest.mark.fault("a dataset has two columns of one name", "refused; the column is named")
def test_columns_of_one_name(tmp_path, suffix):
    path = tmp_path / f"rows.{suffix}"
    if suffix == "parquet":
        column = pyarrow.array(["a"])
        pyarrow.parquet.write_table(pyarrow.table([column, column, column], names=["text", "label", "text"]), path)
    else:
        path.write_text(TWICE[suffix])
    with pytest.raises(UserError, match="has the column 'text' twice: remove one, or rename it"):
        records.read(path)


@pytest.mark.parametrize(
    "suffix,content,settings,message",
    [
        ("csv", "", {}, "rows.csv cannot be read: it is empty"),
        ("csv", "text,label\n", {}, "rows.csv has no rows, only the columns text, label"),
        ("jsonl", "", {}, "rows.jsonl has no rows"),
        ("csv", "text,label\na,x\nb,x,3\n", {}, "line 3: 3 columns instead of the 2 of text, label; correct"),
        ("csv", "text;label\na, b;x\n", {}, "line 2: 2 columns instead of the 1 of text;label; if ';' separates col"),
        ("csv", 'text,label\nc,y\n"a,x\nb,x\n', {}, "rows.csv, line 3 cannot be read .*: write a quote .* close every"),
        ("csv", 'text,label\n"a\nb",y\n"a"b,x\n', {}, "rows.csv, line 4 cannot be read .*: write a quote inside"),
        ("csv", '"text,label\na,x\n', {}, "rows.csv, line 1 cannot be read"),
        ("jsonl", "[" * 100_000, {}, "rows.jsonl cannot be read: its lists and objects lie too deep"),
        ("jsonl", '{"text": "a"}\n{"text": ' + "[" * 100_000, {}, "cannot be read: its lists and objects lie too deep"),
        ("jsonl", '{"text": "a"}\n{"text": "\\ud83d!"}\n', {}, r"line 2: the column 'text' .* \\ud83d, half of a surr"),
        ("json", '[{"\\ud83d": "a"}]', {}, r"item 0: the column '\\ud83d' .* its name has \\ud83d, half of a surr"),
        (
            "json",
            '{\n "text": "a",\n "label": "x"\n}\n',
            {},
            "object of line 1 goes on in the next: write one object a",
        ),
        (
            "jsonl",
            '{"text": "a"}\n{\n "text": "a"\n}\n',
            {},
            "object of line 2 goes on in the next: write one object a",
        ),
        ("json", '\n[{"text": "a"},\n{"text" "b"}]', {}, "rows.json cannot be read .*line 3 column"),
        (
            "csv",
            "text,label\n\xe9t\xe9,x\n",
            {},
            "it is not in UTF-8 .*0xe9.*; say what it is in, such as `encoding: w",
        ),
        ("csv", "text,label\n\xe9,x\n", {"encoding": "utf-16"}, "it is not in utf-16 .*; correct `encoding:`"),
        ("jsonl", '{"text": "a"}\n["b"]\n', {}, "line 2 is no object of columns"),
        ("jsonl", '{"text": "a"}\n{"text": \n', {}, "line 2 is no JSON"),
        (
            "jsonl",
            '{"text": "a"}\n',
            {"separator": ";"},
            "`separator` has no meaning for a .jsonl file, rows.jsonl: leave",
        ),
        ("parquet", "", {"encoding": "utf-8"}, "`encoding` has no meaning for a .parquet file"),
        ("xlsx", "", {}, "rows.xlsx: the file must end in one of .csv, .json"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(tmp_path, suffix, content, settings, message):
    path = tmp_path / f"rows.{suffix}"
    path.write_bytes(content.encode("windows-1252"))
    with pytest.raises(UserError, match=message) as caught:
        records.read(path, **settings)
    assert "\n" not in str(caught.value) and f"rows.{suffix}" in str(caught.value)


def test_separators_and_encodings_of_other_programs(tmp_path):
    content = 'text;label\n"caf\xe9; \u201cgood\u201d";x\r\n\r\nna\xefve;y\r\n'
    for encoding in ("windows-1252", "utf-16", "utf-8-sig", "utf-8"):
        (tmp_path / "rows.csv").write_bytes(content.encode(encoding))
        own = None if encoding.startswith("utf-8") else encoding
        table = records.read(tmp_path / "rows.csv", separator=";", encoding=own)
        assert table.column_names == ["text", "label"]
        assert table["text"] == ["caf\xe9; \u201cgood\u201d", "na\xefve"] and table["label"] == ["x", "y"]


def test_a_mark_in_front_is_no_part_of_the_first_column(tmp_path):
    for suffix, content in (("csv", "text,label\na,x\n"), ("jsonl", '{"text": "a", "label": "x"}')):
        path = tmp_path / f"rows.{suffix}"
        path.write_bytes(content.encode("utf-8-sig"))
        for encoding in (None, "utf-8"):
            assert records.read(path, encoding=encoding).column_names == ["text", "label"]
        for encoding in ("utf-16", "utf-16-be"):
            path.write_bytes("\ufeff".encode(encoding) * (encoding != "utf-16") + content.encode(encoding))
            with pytest.raises(UserError, match="it is not in UTF-8 .* such as `encoding: utf-16`$"):
                records.read(path)
            assert records.read(path, encoding="utf-16").column_names == ["text", "label"]


def test_long_cells_and_lists_of_objects(tmp_path):
    (tmp_path / "rows.csv").write_text(f"text\n{'x' * 200_000}\n")
    assert len(records.read(tmp_path / "rows.csv")["text"][0]) == 200_000
    (tmp_path / "rows.json").write_text(json.dumps([{"text": "a"}, {"text": "b", "more": [1]}], indent=1))
    assert records.read(tmp_path / "rows.json")["more"] == [None, ['["1"]']]


@pytest.mark.parametrize(
    "content,changes,message",
    [
        (
            "text;label\na;x\n",
            {},
            "has no column 'text'; it has text;label; if ';' separates columns, set `separator: \";\"`",
        ),
        ("a,x\nb,y\n", {}, "no column 'text'; it has a, x; if its first line is no header, name them in `columns:`"),
        ("a,x\nb,y\n", {"columns": ["t", "label"]}, "has no column 'text'; it has t, label$"),
        (
            "text,label\na,007\nb,7\n",
            {"classes": [7, 8]},
            "label '007' is none of .* or to `unscored:`, in quotes as it",
        ),
    ],
)
def test_a_column_or_class_that_is_not_there(tmp_path, content, changes, message):
    (tmp_path / "rows.csv").write_text(content)
    entry = ENTRY | {"path": str(tmp_path / "rows.csv"), "classes": ["x", "y"]} | changes
    with pytest.raises(UserError, match=message):
        prepare.make(entry, COUNTS, 0)


NOT_TEXT = [("parquet", b"hello", "bytes"), ("parquet", ["a", "b"], "a list"), ("parquet", {"x": 1}, "an object")]
NOT_TEXT += [(suffix, *one) for suffix in ("jsonl", "json") for one in ((["a"], "a list"), ({"x": 1}, "an object"))]
NOT_TEXT += [("jsonl", {}, "an object"), ("json", [], "a list")]


@pytest.mark.parametrize("column", ["text", "pair", "label"])
@pytest.mark.parametrize("suffix,value,said", NOT_TEXT)
@pytest.mark.fault("a column of texts or labels holds bytes, lists or objects", "refused; column and row are named")
def test_what_is_no_text_is_not_made_one(tmp_path, suffix, value, said, column):
    path, row = tmp_path / f"rows.{suffix}", {"text": "a", "pair": "b", "label": "x", "more": value}
    entry = ENTRY | {"path": str(path), "pair": "pair", "classes": ["x", "y"]}

    def make(rows):
        if suffix == "parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        else:
            lines = [json.dumps(row) for row in rows]
            path.write_text("\n".join(lines) if suffix == "jsonl" else f"[{', '.join(lines)}]")
        return prepare.make(entry, COUNTS | {"evaluation": 1}, 0)

    rows, *_ = make([row, row, row])
    assert rows["text"] == ["a"] * 3  # another column may hold what it likes
    place = {"parquet": "row 1", "jsonl": "line 2", "json": "item 1"}[suffix]
    first = row | {column: None} if suffix == "parquet" else row  # a column of parquet has one type
    with pytest.raises(UserError, match=f"{place}: the column '{column}' holds {said}, not text") as caught:
        make([first, row | {column: value}, first])
    assert "\n" not in str(caught.value)


def test_true_and_false_of_json_are_as_written(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": "a", "label": true}\n{"text": "b", "label": false}\n')
    assert records.read(tmp_path / "rows.jsonl")["label"] == ["true", "false"]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("label", ["nan", "NaN", "-nan"])
@pytest.mark.fault("a label with `neutral` is NaN", "refused as missing; the row is named")
def test_a_score_that_is_no_number_is_missing_not_neutral(tmp_path, suffix, label):
    path = write(tmp_path / f"rows.{suffix}", ["a", "b", "c", "d"], ["1", "-1", label, "2"])
    with pytest.raises(UserError, match="row 2: the label is missing"):
        prepare.make(ENTRY | {"path": str(path), "classes": ["low", "high"], "neutral": 0.5}, COUNTS, 0)
