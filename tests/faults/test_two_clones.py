"""Two clones that share one results folder."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support import PYTHONPATH, copy_workflow, run_python, snakemake

from gnorm import files, running
from gnorm.errors import UserError

TARGET = ("--config", "suite=smoke", "--", "results/smoke/BERT/checkpoint")
LOCK = "results/smoke/running.json"


def two_clones(tmp_path):
    """Two copies of the workflow whose results are one folder."""
    first, second = (copy_workflow(tmp_path / name) for name in ("first", "second"))
    shutil.rmtree(second / "results")
    (second / "results").symlink_to(first / "results")
    return first, second


def start(folder, **options):
    """A run in the background, which has taken the results."""
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *TARGET]
    run = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    while not (folder / LOCK).exists():
        assert run.poll() is None, "it ended before it took the results"
        time.sleep(0.05)
    return run


@pytest.mark.fault(
    "two clones that share one results folder run at once", "the second stops with one line that names the first"
)
def test_the_second_of_two_clones_is_refused(tmp_path):
    first, second = two_clones(tmp_path)
    run = start(first)
    try:
        refused = snakemake(second, *TARGET)
        dry = snakemake(second, "-n", *TARGET)
    finally:
        assert run.wait(300) == 0
    assert refused.returncode == 1
    said = refused.stderr.strip().splitlines()[-1]
    assert said.startswith(
        f"Error: results/smoke is in use by a run in {first} on {os.uname().nodename} (process {run.pid} "
    )
    assert said.endswith(f"if it does not run any more, remove {LOCK} and start again")
    assert "Traceback" not in refused.stderr and dry.returncode == 0
    assert not (first / LOCK).exists() and snakemake(second, *TARGET).returncode == 0
    assert not (first / LOCK).exists()


@pytest.mark.fault("a run that had the results was killed", "the next run on that host takes them without a word")
def test_what_a_killed_run_leaves_does_not_block(tmp_path):
    first, second = two_clones(tmp_path)
    run = start(first)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert (first / LOCK).exists()
    made = snakemake(second, *TARGET)
    assert made.returncode == 0, made.stderr[-3000:]
    assert not (first / LOCK).exists()


@pytest.mark.fault(
    "only the main process of a run was killed, and its jobs go on",
    "the next run is refused until they have ended; its line names their process group",
)
def test_the_jobs_of_a_killed_run_keep_the_results(tmp_path):
    """The job writes its log once it has started, and works for seconds."""
    first, second = two_clones(tmp_path)
    run = start(first, start_new_session=True)
    try:
        while not (first / "results/smoke/logs/make_dataset/BERT.log").exists():
            assert run.poll() is None, "it ended before its job had started"
            time.sleep(0.02)
        os.killpg(run.pid, signal.SIGSTOP)  # the job would be over before the second run has started
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        assert files.group_is_running(run.pid)
        refused = snakemake(second, *TARGET)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
    assert refused.returncode == 1
    said = refused.stderr.strip().splitlines()[-1]
    assert f" that was killed, while its jobs go on (process group {run.pid}). Wait until " in said
    while files.group_is_running(run.pid):
        time.sleep(0.02)
    made = snakemake(second, *TARGET)
    assert made.returncode == 0, made.stderr[-3000:]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"where": "elsewhere"}, "is in use by a run in /clone on here (process 1 of me, since today)"),
        (dict(zip(("where", "pid", "began"), files.process(), strict=True)), f"(process {os.getpid()} of me"),
        (None, "is in use by a run which says nothing about itself"),
    ],
    ids=["elsewhere", "here", "nothing"],  # the same in every worker
)
def test_a_run_that_may_go_on_is_not_disturbed(content, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = {
        "where": files.process()[0],
        "pid": 1,
        "began": 1,
        "group": os.getpgid(0),
        "host": "here",
        "folder": "/clone",
    }
    other |= {"user": "me", "since": "today"}
    os.makedirs("results/s")
    text = "" if content is None else json.dumps(other | content)
    (tmp_path / "results/s/running.json").write_text(text)
    with pytest.raises(UserError) as caught:
        running.take("s")
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert (tmp_path / "results/s/running.json").read_text() == text and len(os.listdir("results/s")) == 1


def in_the_way(tmp_path, kind):
    """Something that keeps a run from leaving its file."""
    if kind == "no right":
        (tmp_path / "results").symlink_to("/sys")  # root may not write there either
    elif kind == "a file":
        (tmp_path / "results").mkdir()
        (tmp_path / "results/s").touch()
    elif kind == "a folder":
        (tmp_path / "results/s/running.json").mkdir(parents=True)
    else:
        (tmp_path / "results").touch()


@pytest.mark.parametrize("kind", ["no right", "a file", "a folder", "no folder"])
@pytest.mark.fault(
    "results cannot be written, or something else has their name", "one line says so, before any job starts"
)
def test_results_that_cannot_be_taken(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    in_the_way(tmp_path, kind)
    with pytest.raises(
        UserError, match=r"^results/s/running.json cannot be written or read \(.*\). Give yourself"
    ) as caught:
        running.take("s")
    assert "\n" not in str(caught.value)
    assert kind != "a folder" or os.listdir("results/s") == ["running.json"]


@pytest.mark.parametrize("name", ["results", "results/smoke", "figures/smoke"])
def test_a_file_with_the_name_of_a_folder(name, tmp_path):
    tree = copy_workflow(tmp_path)
    shutil.rmtree(tree / name, ignore_errors=True)
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).touch()
    made = snakemake(tree, *TARGET)
    assert made.returncode == 1 and "Traceback" not in made.stderr
    last = made.stderr.strip().splitlines()[-1]
    assert last.endswith(f"{name} is a file, and a folder of that name is needed: rename or remove the file")


def test_a_full_disk_leaves_no_empty_file_in_the_results(tmp_path, small_disk, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (small_disk / "s").mkdir()
    (tmp_path / "results").symlink_to(small_disk)
    filler = small_disk / "filler"
    with pytest.raises(OSError), open(filler, "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    with pytest.raises(UserError, match="the disk is full: results/s/running.json.* was not written"):
        running.take("s")
    assert os.listdir("results/s") == []
    filler.unlink()
    running.take("s")
    assert running.is_ours("s") and os.listdir("results/s") == ["running.json"]


def test_a_disk_without_hard_links_will_do(tmp_path, monkeypatch):
    """No such disk can be mounted everywhere; it refuses in this way."""

    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "link", refuse)
    running.take("s")
    assert running.is_ours("s") and os.listdir("results/s") == ["running.json"]
    with pytest.raises(UserError, match="is in use by a run in "):
        running.take("s")
    assert os.listdir("results/s") == ["running.json"]


@pytest.mark.parametrize("damage", [b"", b'{"where": ', b"[]", b"\xff"])
def test_a_damaged_file_breaks_neither_success_nor_exit(damage, tmp_path):
    program = f"""
import os
from pathlib import Path
from gnorm import running
from gnorm.errors import UserError
os.chdir({str(tmp_path)!r})
running.take("s")
Path("results/s/running.json").write_bytes({damage!r})
print(running.is_ours("s"))
try:
    running.take("s")
except UserError as error:
    print(error)
"""
    made = run_python(program)
    assert made.returncode == 0 and made.stderr == ""
    ours, refused = made.stdout.splitlines()
    assert ours == "False" and "is in use by a run which says nothing about itself" in refused
    assert (tmp_path / "results/s/running.json").read_bytes() == damage


def test_of_runs_that_start_at_once_one_gets_the_results(tmp_path):
    """Also where a killed one has left its file; they wait until all have tried, so that no turn comes twice."""
    program = """
import sys, time
from pathlib import Path
from gnorm import running
from gnorm.errors import UserError
import os
os.chdir(sys.argv[1])
Path(f"ready{sys.argv[2]}").touch()
while len(list(Path().glob("ready*"))) < 6: time.sleep(0.001)
try:
    running.take("s")
    print("taken")
except UserError:
    print("refused")
sys.stdout.flush()
Path(f"tried{sys.argv[2]}").touch()
while len(list(Path().glob("tried*"))) < 6: time.sleep(0.001)
"""
    (tmp_path / "results/s").mkdir(parents=True)
    dead = {"where": files.process()[0], "pid": 2**22 + 1, "began": 1, "group": 2**22 + 1, "host": "", "folder": ""}
    dead |= {"user": "", "since": ""}
    (tmp_path / "results/s/running.json").write_text(json.dumps(dead))
    command = [sys.executable, "-c", program, tmp_path]
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    runs = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True, env=environment) for i in range(6)]
    said = [run.communicate(timeout=120)[0].strip() for run in runs]
    assert sorted(said) == [*["refused"] * 5, "taken"]
    assert os.listdir(tmp_path / "results/s") == []


@pytest.mark.fault(
    "two processes write the same file, one of them is killed",
    "what is alive is left alone, what is dead is cleared up",
)
def test_a_live_temporary_file_is_not_removed(tmp_path):
    program = """
import os, signal, sys
from gnorm import files
with files.atomic(sys.argv[1]) as temporary:
    temporary.write_text("first")
    files_before = set(os.listdir(temporary.parents[1]))
    child = os.fork()
    if not child:
        with files.atomic(sys.argv[1]) as other:
            other.write_text("killed")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    left = set(os.listdir(temporary.parents[1])) - files_before
    assert len(left) == 1, left
    files.write_text(sys.argv[1], "second")
    assert set(os.listdir(temporary.parents[1])) == files_before | {"a.txt"}, os.listdir(temporary.parents[1])
"""
    made = run_python(program, str(tmp_path / "a.txt"))
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "a.txt").read_text() == "first" and os.listdir(tmp_path) == ["a.txt"]


def test_what_another_host_has_left_stays_for_a_day(tmp_path):
    for name, age in ((".a.00000000-1-1-abcdefgh", 0), (".a.00000001-1-1-abcdefgh", 2 * files.A_DAY)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    files.write_text(tmp_path / "a", "text")
    assert sorted(os.listdir(tmp_path)) == [".a.00000000-1-1-abcdefgh", "a"]


@pytest.mark.fault(
    "two containers, which count processes by themselves, share one results folder",
    "the second is refused, and leaves temporary files of the first alone",
)
def test_what_lives_in_another_container_is_not_taken_for_dead(tmp_path, monkeypatch):
    """A namespace of process numbers is what tells a container's processes from those of another with its name."""
    program = """
import os
from gnorm import files, running
from gnorm.errors import UserError
try:
    running.take("s")
    print("taken")
except UserError as error:
    print(error)
files.write_text("a.txt", "second")
"""
    monkeypatch.chdir(tmp_path)
    with files.atomic(tmp_path / "a.txt") as temporary:
        temporary.write_text("first")
        running.take("s")
        environment = os.environ | {"PYTHONPATH": PYTHONPATH}
        apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
        made = subprocess.run([*apart, sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        assert made.stdout.startswith("results/s is in use by a run in ") and f"process {os.getpid()} " in made.stdout
    assert (tmp_path / "a.txt").read_text() == "first" and len(os.listdir(tmp_path)) == 2


def test_what_another_host_removes_meanwhile_is_no_error(tmp_path):
    """It comes and goes while the folder is looked through."""
    program = """
import itertools, os, sys
names = [f"{sys.argv[1]}/.a.00000000-1-{i}-abcdefgh" for i in range(50)]
for name in itertools.cycle(names):
    os.mkdir(name)
    os.rmdir(name)
"""
    other = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    try:
        seen, began = 0, time.monotonic()
        while time.monotonic() < began + (2 if seen else 60):  # on a busy machine it takes a while to begin
            files._remove_leftovers(tmp_path / "a")
            seen += any(tmp_path.iterdir())
    finally:
        other.kill()
        other.wait()
    assert seen
