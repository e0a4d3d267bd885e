"""Tensors that strangers saved: shards, published means and saved progress are data, as large as they look."""

import io
import json
import logging
import pickle
import time
import zipfile
from pathlib import Path

import merge_entropy
import pytest
import torch
from support import Malicious, shard_file

from gnorm.errors import UserError
from gnorm.files import load_tensors, save_tensors
from gnorm.published import entropies
from gnorm.resume import State
from gnorm.statistics import outcomes

MINE = {"checkpoint": "0" * 64, "seed": 1}


def pickled(value, **options) -> bytes:
    made = io.BytesIO()
    torch.save(value, made, **options)
    return made.getvalue()


def repacked(content: bytes, compression=zipfile.ZIP_STORED, **replaced: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w", compression) as new:
        for name in old.namelist():
            new.writestr(name, replaced.get(name.rpartition("/")[2].replace(".", "_"), old.read(name)))
    return made.getvalue()


class Called:
    """Calls a function when it is unpickled, one that the library allows."""

    def __init__(self, function, *given):
        self.called = function, given

    def __reduce__(self):
        return self.called


def holding_itself() -> list:
    value: list = []
    value.append(value)
    return value


def hostile(ran: Path) -> dict[str, tuple[bytes, str]]:
    """What is in a file instead of tensors, and what is said of it."""
    asks, without = "is a pickle that asks for posix.mkdir", "without as many numbers"
    whole = pickled(torch.zeros(10**5))
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        claimed = archive.read(name).replace((10**5).to_bytes(4, "little"), (2**30).to_bytes(4, "little"))
    return {
        "code": (pickled(Malicious(ran)), asks),
        "code beside a tensor": (pickled({"mean": torch.ones(2, 2), "first": Malicious(ran)}), asks),
        "code, as older versions save": (
            pickled(Malicious(ran), _use_new_zipfile_serialization=False),
            "torch.save writes zip archives",
        ),
        "a whole module": (pickled(torch.nn.Linear(2, 2)), "asks for torch.nn.modules.linear.Linear"),
        "a number as large as a city": (pickled(torch.zeros(1).expand(10**9, 10**9)), without),
        "one hidden in a list": (pickled({"a": [(torch.zeros(1).expand(10**9, 10**9),)]}), without),
        "a tensor without numbers": (pickled(torch.zeros(10**9, 10**9, device="meta")), without),
        "a sparse tensor": (
            pickled(torch.sparse_coo_tensor(torch.zeros(2, 1, dtype=torch.long), torch.ones(1), (10**9, 10**9))),
            without,
        ),
        "more numbers than there are": (repacked(whole, data_pkl=claimed), "is not a readable tensor file"),
        "a bomb": (repacked(whole, zipfile.ZIP_DEFLATED), "is compressed, as torch.save never does"),
        "a call for 64 GiB": (pickled({"x": Called(bytearray, 2**36)}), "is not a readable tensor file"),
        "a call for a tensor": (pickled([Called(torch.Tensor, 2**34)]), "is not a readable tensor file"),
        "a list that holds itself": (pickled(holding_itself()), "is not a shard of entropies|does not hold one tensor"),
        "nothing": (b"", "torch.save writes zip archives"),
    }


@pytest.mark.stranger(
    "a shard, a published mean or a state is a pickle with code, a bomb, or a tensor of 10^18 numbers that has one",
    "refused by name, with what it asked for; nothing runs, no memory is taken, no advice to trust it",
)
def test_what_is_no_tensor(tmp_path, caplog, record_property):
    ran = tmp_path / "ran"
    torch.save(Malicious(ran), tmp_path / "proof.pt")
    torch.load(tmp_path / "proof.pt", weights_only=False)
    assert ran.exists()  # it would work
    ran.rmdir()
    cases = hostile(ran)
    began = time.monotonic()
    for what, (content, message) in cases.items():
        path = tmp_path / "0-3.pt"
        path.write_bytes(content)
        for read in (lambda path: merge_entropy.merge([str(path)]), entropies.mean_of):
            with pytest.raises(UserError, match=message) as caught:
                read(path)
            said = str(caught.value)
            assert "0-3.pt" in said and "\n" not in said and "weights_only" not in said, what
        state = State(tmp_path / "state.pt", MINE)
        state.path.write_bytes(content)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "gnorm"):
            assert state.load() is None and state.refused.read_bytes() == content, what
        assert "ignoring saved progress in" in caplog.text and not state.path.exists()
    assert not ran.exists() and time.monotonic() - began < 30
    record_property("tried", 3 * len(cases))


@pytest.mark.stranger(
    "a published mean has no heads, a million layers, or holds numbers that are none", "refused; its shape is named"
)
def test_means_that_are_none(tmp_path, record_property):
    path = tmp_path / "mean.pt"
    for value, message in (
        (torch.ones(0, 12), r"holds a tensor of \(0, 12\)"),
        (torch.ones(2_000_000, 1), r"holds a tensor of \(2000000, 1\)"),
        (torch.full((2, 2), float("nan")), "values that are not finite"),
        (torch.ones(2, 2, 2), "does not hold one tensor of layers x heads"),
        ({"mean": torch.ones(2, 2)}, "does not hold one tensor of layers x heads"),
        ("12x12", "does not hold one tensor of layers x heads"),
    ):
        save_tensors(path, value)
        with pytest.raises(UserError, match=message):
            entropies.mean_of(path)
    record_property("tried", 6)


FOREIGN = [
    {"belongs_to": {"checkpoint": "f" * 64, "seed": 1}, "value": 1},
    {"belongs_to": {"checkpoint": torch.ones(3), "seed": 1}, "value": 1},
    {"belongs_to": [1, 2], "value": 1},
    {"belongs_to": None},
    {"value": {"step": 10**9}},
    [MINE],
    torch.ones(3),
    "progress",
]


@pytest.mark.stranger(
    "saved progress is of another job, or of no job's form",
    "refused with what differs, and set aside; the job starts anew",
)
def test_states_of_others(tmp_path, caplog, record_property):
    state = State(tmp_path / "state.pt", MINE)
    for value in FOREIGN:
        save_tensors(state.path, value)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "gnorm"):
            assert state.load() is None
        assert "ignoring saved progress" in caplog.text and not state.path.exists()
    state.save({"step": 3})
    assert state.load() == {"step": 3}
    record_property("tried", len(FOREIGN))


@pytest.mark.stranger(
    "the signature of finished results names files above its folder, or none", "ignored, with a line in the log"
)
def test_signatures_of_others(tmp_path, caplog, record_property):
    state, folder = State(tmp_path / "state.pt", MINE), tmp_path / "parts"
    folder.mkdir()
    (tmp_path / "outside.csv").write_text("1")
    (folder / "0-0.csv").write_text("1")
    state.sign(folder / "0-0.json", folder / "0-0.csv")
    whole = json.loads((folder / "0-0.json").read_text())
    digest = whole["files"]["0-0.csv"]
    cases = [{"../outside.csv": digest}, {str(tmp_path / "outside.csv"): digest}, {"": digest}, [1], 3, None]
    for files in cases:
        (folder / "1-1.json").write_text(json.dumps(whole | {"files": files}))
        caplog.clear()
        with caplog.at_level(logging.WARNING, "gnorm"):
            assert [path.name for path in state.signed(folder)] == ["0-0.json"]
        assert "ignoring" in caplog.text and "1-1.json" in caplog.text
    record_property("tried", len(cases))


def array(header: bytes, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


ARRAYS = {
    "a pickle": array(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", pickle.dumps([1])),
    "more numbers than there are": array(b"{'descr': '<f8', 'fortran_order': False, 'shape': (10**15,), }\n"),
    "a trillion numbers": array(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"),
    "a header that is code": array(b"__import__('os').mkdir('ran')\n"),
    "a bomb": array(b"{'descr': '<f8', 'fortran_order': False, 'shape': (400000000,), }\n", bytes(2**20)),
    "nothing": b"",
}


@pytest.mark.stranger(
    "a file of outcomes row by row (`*.rows.npz`) has pickles for arrays, or says more numbers than it holds",
    "refused by name; nothing runs, no memory is taken",
)
def test_rows_that_are_none(tmp_path, monkeypatch, record_property):
    monkeypatch.chdir(tmp_path)
    for what, content in ARRAYS.items():
        with zipfile.ZipFile(tmp_path / "a.rows.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("heads.npy", content)
        with pytest.raises(UserError, match="a.rows.npz is no readable file of outcomes") as caught:
            outcomes.read(tmp_path / "a.rows.npz")
        assert "allow_pickle=True" not in str(caught.value) and "\n" not in str(caught.value), what
    assert not (tmp_path / "ran").exists()
    record_property("tried", len(ARRAYS))


def test_what_is_written_here_is_read_again(tmp_path):
    values = torch.rand(4, 2, 3, dtype=torch.float64)
    shard_file(tmp_path / "0-3.pt", 0, values)
    assert torch.equal(load_tensors(tmp_path / "0-3.pt")["ranked"], values)
    shared = torch.rand(6)
    save_tensors(tmp_path / "views.pt", {"part": shared[2:4], "turned": shared.view(2, 3).T, "none": torch.empty(0)})
    assert torch.equal(load_tensors(tmp_path / "views.pt")["turned"], shared.view(2, 3).T)
