"""Published results that strangers made: workbooks, curves and folders."""

import io
import time
import zipfile

import openpyxl
import pandas as pd
import pytest

from gnorm import layout
from gnorm.errors import UserError
from gnorm.published import accuracies, interchange

TABLE = pd.DataFrame({"Heads Pruned": [0, 2, 4], "Trial_1": [0.9, 0.7, 0.5]})
SHEET, RELATIONS = "xl/worksheets/sheet1.xml", "xl/_rels/workbook.xml.rels"


@pytest.fixture
def workbook(tmp_path):
    path = tmp_path / "BERTrandompruned_heads_data_1x3_1group.xlsx"
    TABLE.to_excel(path, index=False)
    assert accuracies.trials([str(path)])["accuracy"].tolist() == [0.9, 0.7, 0.5]
    return path


def rewrite(path, changes: dict, compression=zipfile.ZIP_DEFLATED) -> None:
    """Write a workbook anew, with parts changed by functions of their bytes, or added."""
    made, whole = io.BytesIO(), zipfile.ZipFile(io.BytesIO(path.read_bytes()))
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name in {**dict.fromkeys(whole.namelist()), **changes}:
            content = whole.read(name) if name in whole.namelist() else b""
            archive.writestr(name, changes[name](content) if name in changes else content)
    path.write_bytes(made.getvalue())


def refused(path, message):
    began = time.monotonic()
    with pytest.raises(UserError, match=f"{path.name} cannot be read: .*{message}") as caught:
        accuracies.trials([str(path)])
    assert "\n" not in str(caught.value) and time.monotonic() - began < 30


LAUGHS = b'<!DOCTYPE x [<!ENTITY a "ha">' + b"".join(
    b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9)
)
PRIVATE = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">'


@pytest.mark.stranger(
    "a published workbook declares entities: a billion laughs, a file of this machine, another server",
    "refused before they are looked at",
)
def test_document_types(workbook, record_property):
    whole = workbook.read_bytes()
    declared = {
        "laughs": lambda text: text.replace(b"<worksheet", LAUGHS + b"]><worksheet", 1).replace(b"Trial_1", b"&j;"),
        "a file": lambda text: text.replace(b"<worksheet", PRIVATE + b"]><worksheet", 1),
        "a server": lambda text: text.replace(b"<worksheet", b'<!DOCTYPE x SYSTEM "http://[::1]/x.dtd"><worksheet', 1),
        "in UTF-16": lambda text: (
            '<?xml version="1.0" encoding="UTF-16"?>'
            + text.decode().rpartition("?>")[2].replace("<worksheet", LAUGHS.decode() + "]><worksheet", 1)
        ).encode("utf-16"),
    }
    for change in declared.values():
        workbook.write_bytes(whole)
        rewrite(workbook, {SHEET: change})
        refused(workbook, "sheet1.xml in it declares a document type")
    for part in ("xl/workbook.xml", "xl/styles.xml", "[Content_Types].xml", "xl/_rels/workbook.xml.rels"):
        workbook.write_bytes(whole)
        rewrite(
            workbook, {part: lambda text: text.partition(b"?>")[0] + b"?>" + LAUGHS + b"]>" + text.partition(b"?>")[2]}
        )
        refused(workbook, "in it declares a document type|cannot be read")
    record_property("tried", len(declared) + 4)


@pytest.mark.stranger(
    "a published workbook is a zip bomb, or has a cell in the last row and column of all",
    "refused by its sizes, in seconds; no memory is taken",
)
def test_workbooks_larger_than_they_look(workbook, monkeypatch, record_property):
    whole = workbook.read_bytes()
    far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    cells = b"<c/>" * 10_001 + b"</sheetData>"
    changes = {
        "unpacks to more than": {"xl/media/zeros": lambda _: bytes(accuracies.LARGEST + 1)},
        "has more than 1,000,000 cells": {SHEET: lambda text: text.replace(b"</sheetData>", far)},
        "has more than 10,000 cells": {SHEET: lambda text: text.replace(b"</sheetData>", cells)},
        "no element found": {SHEET: lambda text: b"<a>" * 10**5},
    }
    for message, change in changes.items():
        monkeypatch.setattr(accuracies, "CELLS", 10_000 if "10,000" in message else 1_000_000)
        workbook.write_bytes(whole)
        rewrite(workbook, change)
        assert workbook.stat().st_size < 10**5
        refused(workbook, message)
    workbook.write_bytes(whole)
    claimed = b'<dimension ref="A1:XFD1048576"/>'
    rewrite(workbook, {SHEET: lambda text: text.replace(b'<dimension ref="A1:B4"/>', claimed)})
    assert len(accuracies.trials([str(workbook)])) == 3  # what it says of its size alone is not believed
    record_property("tried", len(changes) + 1)


PLACES = ("1e15", "1_048_576", " 9999999 ", "10000000", "\u0661", "-5", "A1", "1.5")


@pytest.mark.stranger(
    "rows and cells of a published workbook say places that are none, such as row 1e15, up to which a reader counts",
    "refused at once; the place is shown",
)
def test_places_of_cells(workbook, record_property):
    whole = workbook.read_bytes()
    ends = [f'<row r="{place}"><c><v>1</v></c></row></sheetData>' for place in PLACES]
    ends += [f'<row r="5"><c r="{place}"><v>1</v></c></row></sheetData>' for place in ("ABCD1", "a1", "7", "A1:B2")]
    for end in ends:
        workbook.write_bytes(whole)
        rewrite(workbook, {SHEET: lambda text, end=end: text.replace(b"</sheetData>", end.encode())})
        refused(workbook, "in it has a (row|c) in '.*', which is no place")
    record_property("tried", len(ends))


@pytest.mark.stranger(
    "the sheet of a published workbook has a name that is not one of XML, and a far cell, an entity, or a text of a "
    "million letters",
    "refused like any other",
)
def test_sheets_by_other_names(workbook, record_property):
    whole = workbook.read_bytes()
    moved = {
        part: lambda text: text.replace(b"sheet1.xml", b"sheet1.bin") for part in (RELATIONS, "[Content_Types].xml")
    }
    far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    for message, change in {
        "has more than 1,000,000 cells": lambda text: text.replace(b"</sheetData>", far),
        "declares a document type": lambda text: text.replace(b"<worksheet", LAUGHS + b"]><worksheet", 1),
        "has more than 32,767 characters": lambda text: text.replace(b"<v>0.9</v>", b"<v>" + b"9" * 10**6 + b"</v>"),
    }.items():
        workbook.write_bytes(whole)
        sheet = zipfile.ZipFile(io.BytesIO(whole)).read(SHEET)
        changed = {SHEET.replace(".xml", ".bin"): lambda _, change=change, sheet=sheet: change(sheet)}
        rewrite(workbook, {SHEET: lambda _: b"<a/>"} | moved | changed)
        refused(workbook, message)
    workbook.write_bytes(whole)
    rewrite(workbook, {SHEET: lambda _: b"<a/>", SHEET.replace(".xml", ".bin"): lambda _: sheet} | moved)
    assert len(accuracies.trials([str(workbook)])) == 3  # or the attempts above are none
    record_property("tried", 3)


@pytest.mark.stranger(
    "cells of a published workbook are formulas, links, errors or text",
    "formulas are never computed: refused as no numbers",
)
def test_formulas(workbook, record_property):
    values = ["=1-0.3", '=HYPERLINK("http://localhost/?"&A1)', "=cmd|' /C calc'!A0", "#REF!", "=A1", "high"]
    for value in values:
        book = openpyxl.load_workbook(workbook)
        book.active["B3"] = value
        book.save(workbook)
        with pytest.raises(UserError, match="column 'Trial_1' must hold numbers only"):
            accuracies.trials([str(workbook)])
    record_property("tried", len(values))


CURVES = {
    "-5,0.9\n0,0.8\n": "must hold whole numbers from 0 to 1,000,000",
    "0,0.9\n1.5,0.8\n": "must hold whole numbers",
    "0,0.9\ninf,0.8\n": "must hold whole numbers",
    "0,0.9\n1e300,0.8\n": "must hold whole numbers",
    "0,0.9\n99999999999999999999999999,0.8\n": "must hold (whole )?numbers",
    "0,-0.1\n1,0.8\n": "accuracies must lie between 0 and 1",
    "0,inf\n1,0.8\n": "accuracies must lie between 0 and 1",
    "0,nan\n1,0.8\n": "must hold numbers only",
    "4,0.9\n2,0.8\n": "must rise",
    "0,=1+1\n": "must hold numbers only",
    "0,0.5,0.6\n": "cannot be read|must hold",
}


@pytest.mark.stranger(
    "a published curve has negative, broken, endless or falling numbers of heads, or accuracies that are none",
    "refused; file and column are named",
)
def test_curves(tmp_path, record_property):
    path = tmp_path / "curve.csv"
    for rows, message in CURVES.items():
        path.write_text(f"Pruned_Heads,Accuracy\n{rows}")
        with pytest.raises(UserError, match=f"curve.csv.*{message}"):
            accuracies.curve(str(path))
    with open(path, "wb") as file:
        file.truncate(accuracies.LARGEST + 1)
    with pytest.raises(UserError, match="curve.csv cannot be read: it has more than"):
        accuracies.curve(str(path))
    record_property("tried", len(CURVES) + 1)


@pytest.mark.stranger(
    "a file of a published folder is a link to something private, or a folder is",
    "refused; neither its name's columns nor its first line are shown",
)
def test_links_in_a_published_folder(tmp_path, record_property):
    secret = tmp_path / "home/id_rsa"
    secret.parent.mkdir()
    secret.write_text("-----BEGIN PRIVATE KEY-----\n")
    clone = tmp_path / "clone"
    curves, means = clone / "experiments_results", clone / "AE_calculation_results"
    for folder, name in ((curves, "pruned_heads_accuracy(BERT)basedonGnorm.csv"), (means, "mean_entropy_BERT_100.pt")):
        folder.mkdir(parents=True, exist_ok=True)
        (curves / "notes.csv").write_text("")
        (folder / name).symlink_to(secret)
        with pytest.raises(UserError, match=f"leads out of {clone}, to {secret}") as caught:
            interchange.scan(clone)
        assert "PRIVATE" not in str(caught.value)
        (folder / name).unlink()
    curves.rename(tmp_path / "elsewhere")
    curves.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=f"leads out of {clone}"):
        interchange.scan(clone)
    record_property("tried", 3)


@pytest.mark.stranger(
    "published files are named for 10^200 rows, or a model with a script for a name", "they count as other files"
)
def test_names_of_published_files(tmp_path, record_property):
    curves = layout.within(tmp_path, layout.PUBLISHED_CURVE).parent
    curves.mkdir()
    digits = "1" + "0" * 200
    for template, rows in (
        (layout.PUBLISHED_ENTROPY, {"total": digits}),
        (layout.PUBLISHED_SHARD, {"first": 0, "last": digits}),
    ):
        path = layout.within(tmp_path, template, model="BERT", **rows)
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    names = ["pruned_heads_accuracy(<script>)basedonGnorm.csv", "pruned_heads_accuracy(a;b)basedonGnorm.csv"]
    for name in names:
        (curves / name).write_text("Pruned_Heads,Accuracy\n0,0.5\n")
    with pytest.raises(UserError, match="holds none of the published files"):
        interchange.scan(tmp_path)
    record_property("tried", len(names) + 2)
