"""Files are complete or absent; tensors are data; logs reach file and terminal."""

import os

import pytest
import torch
from support import Malicious, run_python

from gnorm import files
from gnorm.errors import UserError


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")
    with pytest.raises(RuntimeError), files.atomic(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_folders_are_replaced_whole(tmp_path):
    for content in ("one", "two"):
        with files.atomic(tmp_path / "folder") as temporary:
            temporary.mkdir()
            (temporary / content).touch()
    assert os.listdir(tmp_path / "folder") == ["two"] and os.listdir(tmp_path) == ["folder"]


def test_a_pickle_with_code_is_not_run(tmp_path):
    torch.save({"mean": Malicious(tmp_path / "ran")}, tmp_path / "bad.pt")
    with pytest.raises(UserError, match="bad.pt is refused: it is a pickle that asks for"):
        files.load_tensors(tmp_path / "bad.pt")
    assert not (tmp_path / "ran").exists()


def test_a_truncated_tensor_file_is_named(tmp_path):
    files.save_tensors(tmp_path / "a.pt", torch.ones(100))
    (tmp_path / "a.pt").write_bytes((tmp_path / "a.pt").read_bytes()[:200])
    with pytest.raises(UserError, match="a.pt is not a readable"):
        files.load_tensors(tmp_path / "a.pt")


@pytest.mark.parametrize("error,lines", [("UserError('mend this')", 1), ("ValueError('a bug')", 3)])
def test_errors_reach_log_and_terminal(tmp_path, error, lines):
    log = tmp_path / "rule.log"
    imports = "from gnorm.errors import UserError; from gnorm.logs import start"
    made = run_python(f"{imports}; start({str(log)!r}, 'rule'); raise {error}")
    assert made.returncode != 0
    for text in (log.read_text(), made.stderr):
        assert ("Traceback" in text) == (lines > 1)
        assert ("mend this" if lines == 1 else "a bug") in text


LIMITED = """
from gnorm.files import within_memory
with within_memory(2**28):
    kept = bytearray(2**27)
    with within_memory(2**40):  # no more than around it
        try:
            bytearray(2**30)
        except MemoryError:
            print("refused")
bytearray(2**30)
print("afterwards as ever")
"""


def test_a_block_takes_no_more_memory_than_it_may():
    made = run_python(LIMITED)
    assert made.stdout.split("\n")[:2] == ["refused", "afterwards as ever"], made.stderr
