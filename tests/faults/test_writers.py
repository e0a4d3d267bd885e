"""Every kind of output, its writer killed in the middle or the disk full: whole files or none."""

import contextlib
import os
import re
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from support import ROOT

from gnorm import files, tables
from gnorm.data import records
from gnorm.errors import UserError
from gnorm.figures import style
from gnorm.models import checkpoints
from gnorm.pages import workbooks

ROWS = 40_000


def table(rows=ROWS):
    return pd.DataFrame(np.random.default_rng(0).random((rows, 6)), columns=list("abcdef"))


def write_csv(path):
    with files.atomic(path) as temporary:
        table().to_csv(temporary, index=False)


def write_workbook(path):
    workbooks.write(path, {"Sheet1": table(4000)})


def write_figure(path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8))
    axes = figure.subplots(4, 4)
    for axis in axes.flat:
        axis.imshow(np.random.default_rng(0).random((200, 200)))
    style.save(figure, path, Path(path).with_suffix(".pdf"), 250)


def write_parquet(path):
    import datasets

    records.write(datasets.Dataset.from_pandas(table(400_000)), path)


def write_tensors(path):
    files.save_tensors(path, {"ranked": torch.arange(25_000_000.0)})


def write_array(path):
    with files.atomic(path) as temporary:
        np.savez_compressed(temporary, change=np.random.default_rng(0).random(2_000_000))


def write_page(path):
    files.write_text(path, "<p>row</p>\n" * 5_000_000)


def write_tables(path):
    folder = Path(path).parent
    text = pd.DataFrame({"model": ["BERT"] * 4000, "area": np.linspace(0, 1, 4000)})
    tables.write(text, {"area": 3}, "caption", path, folder / "t.md", folder / "t.tex", folder / "t.html")


def write_checkpoint(path):
    from support import Tiny

    tiny = Tiny("bert", layers=6, width=256)
    checkpoints.save(path, tiny.model, tiny.tokenizer)


WRITERS = {
    "table.csv": write_csv,
    "random.xlsx": write_workbook,
    "figure.png": write_figure,
    "rows.parquet": write_parquet,
    "shard.pt": write_tensors,
    "change.npz": write_array,
    "page.html": write_page,
    "areas.csv": write_tables,
    "checkpoint": write_checkpoint,
}


def content(path):
    if not path.is_dir():
        return path.read_bytes()
    return {p.name: p.read_bytes() for p in path.iterdir()}


def kill_in_the_middle(write, path) -> bool:
    """Kill a process that writes as soon as something of its file is on the disk; False if it was quicker."""
    child = os.fork()
    if not child:
        try:
            torch.set_num_threads(1)
            write(path)
        finally:
            os._exit(0)
    while True:
        started = any(p.is_file() and p.stat().st_size for p in path.parent.glob(f".{path.name}.*/**/*"))
        if started or os.waitpid(child, os.WNOHANG)[0]:
            break
        time.sleep(0.0005)
    if not started:
        return False
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.fault(
    "a writer is killed in the middle of a file (tables, workbook, figure, parquet, tensors, page, checkpoint)",
    "no half file has the final name, what was there stays; writing again succeeds and clears up",
)
def test_a_killed_writer_leaves_no_half_file(tmp_path, name, record_property):
    path, write = tmp_path / name, WRITERS[name]
    write(path)
    whole = content(path)
    for there in (False, True, False):
        if not there:
            for made in tmp_path.iterdir():
                made.unlink() if made.is_file() else shutil.rmtree(made)
        for _ in range(5):
            if kill_in_the_middle(write, path):
                break
        else:
            pytest.fail("the writer was quicker than the kill, five times")
        assert content(path) == whole if there else not path.exists()
        assert any(p.name.startswith(f".{name}.") for p in tmp_path.iterdir())
        write(path)
        assert content(path) == whole
        assert not any(p.name.startswith(f".{name}.") for p in tmp_path.iterdir())
    record_property("tried", 3)


def fill(disk):
    """Leave room for next to nothing."""
    with open(disk / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    os.truncate(disk / "filler", (disk / "filler").stat().st_size - 64 * 1024)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.fault(
    "the disk is full", "one line says so and names the file; what was there stays, nothing half is left"
)
def test_a_full_disk(small_disk, name):
    path = small_disk / name
    if name == "checkpoint":
        path.mkdir()
        (path / "config.json").write_text("old")
    else:
        path.write_text("old")
    before = content(path)
    fill(small_disk)
    with pytest.raises(UserError, match="the disk is full: .* was not written; make room and start again") as caught:
        WRITERS[name](path)
    assert "\n" not in str(caught.value)
    assert content(path) == before
    assert not any(p.name.startswith(".") for p in small_disk.iterdir())


def test_leftovers_of_other_files_stay(tmp_path):
    """a.csv must not clear up after a, nor a file that a user hid."""
    dead = f"{files.process()[0]}-{2**22 + 1}-1-abcdefgh"  # Linux has no such process
    for name in (f".a.csv.{dead}", f".a.{dead}", ".a.notes", f".ab.{dead}"):
        (tmp_path / name).mkdir()
    files.write_text(tmp_path / "a", "text")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([f".a.csv.{dead}", ".a.notes", f".ab.{dead}", "a"])


def test_every_output_is_written_through_one_door():
    """Scripts and modules write files inside `atomic` or not at all."""
    direct = re.compile(r"\.to_csv\(|\.to_excel\(|\.savefig\(|\.write_text\(|torch\.save\(|np\.savez")
    for path in (ROOT / "scripts").rglob("*.py"):
        for line in path.read_text().splitlines():
            if direct.search(line):
                assert re.search(r"temporary|workbook|scratch|files\.write_text|StringIO", line), f"{path.name}: {line}"
