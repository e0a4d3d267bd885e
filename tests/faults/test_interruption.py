"""A real workflow, killed again and again, ends with the files of one that was left alone."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml
from support import copy_workflow, snakemake

from gnorm import files
from gnorm.errors import UserError

pytestmark = pytest.mark.slow

SUITE = ("--config", "suite=killed", "runs=2")
MODEL = {
    "dataset": {"source": "generated", "corpus": "finance"},
    "checkpoint": {
        "source": "train",
        "family": "bert",
        "layers": 4,
        "heads": 4,
        "width": 32,
        "feed_forward": 32,
        "epochs": 15,  # so many that three kills meet it at work
    },
    "rows": {"train": 1500, "calibration": 256, "evaluation": 2000},  # so many that a step can be hit
    "shard_rows": 64,
    "random": {"levels": 9, "trials": 3},
}
TRAJECTORIES = "results/killed/BERT/trajectories/greedy_gnorm"
GREEDY = [f"{TRAJECTORIES}/0-1.{end}" for end in ("csv", "scores.pt", "rows.npz", "json")]
RANDOM = [f"results/killed/BERT/random/shards/0-2.{end}" for end in ("csv", "rows.npz", "json")]
CHECKPOINT = ["results/killed/BERT/checkpoint"]
SHARDS = [f"results/killed/BERT/entropy/shards/{first}-{first + 63}.pt" for first in range(0, 256, 64)]


def run(tree, *targets):
    made = snakemake(tree, *targets, *SUITE)
    assert made.returncode == 0, made.stderr[-3000:]
    return made


@pytest.fixture(scope="session")
def untrained(tmp_path_factory) -> Path:
    """A workflow with a dataset."""
    tree = copy_workflow(tmp_path_factory.mktemp("killed"))
    suite = {"threads": 1, "reuse_mb": 0, "runs_per_job": 2, "trials_per_job": 3, "models": {"BERT": MODEL}}
    (tree / "suites/killed.yaml").write_text(yaml.safe_dump(suite))
    run(tree, "datasets")
    return tree


@pytest.fixture(scope="session")
def finished(untrained, tmp_path_factory) -> Path:
    """The same, left alone to the end."""
    tree = tmp_path_factory.mktemp("alone") / "tree"
    subprocess.run(["cp", "-a", str(untrained), str(tree)], check=True)
    run(tree, *GREEDY, *RANDOM, *SHARDS, "entropy")
    assert not (tree / "results/killed/state").exists()
    return tree


@pytest.fixture
def trained(untrained, finished, tmp_path, copy_of) -> Path:
    """The checkpoint is there, nothing is pruned and no entropy is known."""
    tree = copy_of(finished, tmp_path)
    for path in ("trajectories", "random", "entropy"):
        shutil.rmtree(tree / "results/killed/BERT" / path)
    return tree


def states(tree) -> dict[str, dict]:
    """What the states hold right now, by their names, without what was answered on each row."""
    found = {}
    for path in sorted((tree / "results/killed/state").rglob("*.pt")):
        if ".rows" in path.name:
            continue
        try:
            found[path.name] = files.load_tensors(path)["value"]
        except (UserError, FileNotFoundError):  # finished just now
            continue
    return found


def pruned(tree) -> int:
    """Steps, or levels of trials, that are recorded."""
    return sum(len(value["steps"] if isinstance(value, dict) else value) for value in states(tree).values())


def trained_steps(tree) -> int:
    return sum(value["step"] for value in states(tree).values())


def start(tree, *targets):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SNAKEMAKE")}
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *targets, *SUITE]
    with open(tree / "said.txt", "w") as said:
        return subprocess.Popen(command, cwd=tree, env=environment, stdout=said, stderr=said, start_new_session=True)


def find(pid, script) -> psutil.Process | None:
    """The process that runs a script, below that of Snakemake."""
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if script in " ".join(process.cmdline()) and "python" in process.name():
                return process
    return None


def killed(tree, targets, script, reached, how):
    """Run until `reached()`, then kill the job that runs then (`job`, `term`) or everything at once (`all`)."""
    process, job, done = start(tree, *targets), None, False
    try:
        while not done:
            assert process.poll() is None, (tree / "said.txt").read_text()[-3000:]
            now = reached()  # before the job is looked for: the one that got there may have ended
            job = job if job and job.is_running() else find(process.pid, script)
            if now and job and how == "all":
                os.killpg(process.pid, signal.SIGKILL)
                done = True
            elif now and job:
                with contextlib.suppress(psutil.NoSuchProcess):  # the next one will do
                    job.send_signal(signal.SIGKILL if how == "job" else signal.SIGTERM)
                    done = True
            time.sleep(0.002)
        assert process.wait(60) != 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if how == "all":  # as the README says
        refused = snakemake(tree, *targets, *SUITE)
        assert refused.returncode and "Directory cannot be locked" in refused.stdout + refused.stderr
        assert snakemake(tree, "--unlock", *SUITE).returncode == 0


def same(tree, finished, names):
    """To the last byte, but for the seconds that steps took."""
    for name in names:
        a, b = tree / name, finished / name
        if name.endswith(".csv"):
            one, other = (pd.read_csv(p, dtype=str, keep_default_na=False) for p in (a, b))
            dropped = [c for c in ("seconds",) if c in one]
            pd.testing.assert_frame_equal(one.drop(columns=dropped), other.drop(columns=dropped))
        elif name.endswith(".json") and "belongs_to" in json.loads(
            b.read_text()
        ):  # seconds change the digests that it holds, and edited code what it belongs to
            one, other = (json.loads(p.read_text())["belongs_to"] for p in (a, b))
            assert one.keys() == other.keys()
        else:
            assert a.read_bytes() == b.read_bytes(), name


@pytest.mark.parametrize(
    "targets,script",
    [
        pytest.param(
            GREEDY,
            "prune_heads.py",
            marks=pytest.mark.fault(
                "a greedy job or the whole workflow is killed (SIGKILL, SIGTERM) at random steps, in sequence",
                "each time it goes on after the last step; order, scores and accuracies are the same bytes",
            ),
        ),
        pytest.param(
            RANDOM,
            "random_pruning.py",
            marks=pytest.mark.fault(
                "a job of random trials or the whole workflow is killed at random levels, in sequence",
                "each time it goes on after the last level; orders and accuracies are the same bytes",
            ),
        ),
    ],
)
def test_pruning_goes_on_after_kills(trained, finished, targets, script, record_property):
    total = 2 * 17 if targets is GREEDY else 3 * 9
    draw = random.Random(script)
    done = 0
    for kill, how in enumerate(("job", "all", "term", "job", "all")):
        goal = done + 1 + draw.randrange((total - done) // (6 - kill))
        killed(trained, targets, script, lambda goal=goal: pruned(trained) >= goal, how)
        there = [name for name in targets if (trained / name).exists()]
        if how == "all" and there:  # nobody was left to remove the rows of the run that is over
            assert there == [GREEDY[0]] and pd.read_csv(trained / GREEDY[0])["run"].unique().tolist() == [0]
        else:
            assert there == []
        assert goal <= pruned(trained) < total
        if done:
            assert "goes on after" in (trained / "said.txt").read_text()
        if how == "term":
            assert "ended by SIGTERM" in (trained / "said.txt").read_text()
            left = [p for p in (trained / "results/killed").rglob(".*") if p.name != ".snakemake_timestamp"]
            assert left == []
        done = pruned(trained)
    run(trained, *targets)
    same(trained, finished, targets)
    assert not (trained / "results/killed/state").exists()
    record_property("tried", 5)


@pytest.mark.fault(
    "training is killed again and again", "it goes on after the last epoch; the checkpoint is the same bytes"
)
def test_training_goes_on_after_kills(untrained, finished, tmp_path, copy_of, record_property):
    tree = copy_of(untrained, tmp_path)
    for how in ("job", "all", "term"):
        done = trained_steps(tree)
        killed(tree, CHECKPOINT, "make_checkpoint.py", lambda done=done: trained_steps(tree) > done, how)
        assert not (tree / CHECKPOINT[0]).exists()
        assert not done or "training goes on after step" in (tree / "said.txt").read_text()
    run(tree, *CHECKPOINT)
    names = sorted(p.relative_to(finished) for p in (finished / CHECKPOINT[0]).iterdir())
    same(tree, finished, [str(name) for name in names if name.name != ".snakemake_timestamp"])
    record_property("tried", 3)


@pytest.mark.fault(
    "a run that trains a model of its own is killed while it trains, and while it prunes",
    "it goes on after the last epoch, and after the last step; the same bytes",
)
def test_a_run_with_a_model_of_its_own_goes_on_after_kills(untrained, tmp_path, copy_of, record_property):
    checkpoint = ["results/killed/BERT/run1/checkpoint"]
    greedy = [f"results/killed/BERT/run1/trajectories/greedy_gnorm/1-1.{end}" for end in ("csv", "scores.pt", "json")]
    trees = []
    for name in ("killed", "alone"):
        (tmp_path / name).mkdir()
        trees.append(copy_of(untrained, tmp_path / name))
        suite = trees[-1] / "suites/killed.yaml"
        suite.write_text(suite.read_text() + "vary: training\n")
    tree, alone = trees
    killed(tree, checkpoint, "make_checkpoint.py", lambda: trained_steps(tree) > 0, "all")
    assert "training goes on after step" in run(tree, *checkpoint).stderr
    killed(tree, greedy, "prune_heads.py", lambda: pruned(tree) >= 3, "job")
    assert "run 1 goes on after step" in run(tree, *greedy).stderr
    assert not (tree / "results/killed/state").exists()
    run(alone, *greedy)
    weights = sorted(p.relative_to(alone) for p in (alone / checkpoint[0]).iterdir())
    same(tree, alone, [*greedy, *(str(name) for name in weights if name.name != ".snakemake_timestamp")])
    record_property("tried", 2)


@pytest.mark.fault("entropy shards are killed", "only shards that were not finished are done again; same bytes")
def test_only_unfinished_shards_are_done_again(trained, finished, record_property):
    times = {}
    for how in ("job", "all", "job"):
        said = trained / "said.txt"
        said.write_text("")
        # Snakemake has noted one as done, and the next one is at work.
        killed(trained, SHARDS, "entropy_shard.py", lambda said=said: "Finished jobid" in said.read_text(), how)
        there = {name: (trained / name).stat().st_mtime_ns for name in SHARDS if (trained / name).exists()}
        assert len(there) == len(times) + 1 and times.items() <= there.items()
        times = there
    run(trained, *SHARDS, "entropy")
    assert {name: (trained / name).stat().st_mtime_ns for name in times} == times
    same(trained, finished, [*SHARDS, "results/killed/BERT/entropy/entropy.pt"])
    record_property("tried", 3)


@pytest.mark.fault(
    "a setting or the code changes while a state is there",
    "the log names the state and what differs; the result is that of an untouched run",
)
def test_a_state_of_something_else_is_not_mixed_in(trained, finished, record_property):
    killed(trained, GREEDY, "prune_heads.py", lambda: pruned(trained) >= 5, "job")
    config = trained / "config.yaml"
    before = config.read_text()
    config.write_text(before.replace("objective: logit_norm", "objective: task_loss"))
    refused = "BERT.greedy_gnorm.run0.pt: it belongs to another strategy"
    said = trained / "said.txt"
    said.write_text("")
    started = lambda: refused in said.read_text() and pruned(trained) >= 3  # noqa: E731
    killed(trained, GREEDY, "prune_heads.py", started, "job")
    config.write_text(before)
    module = trained / "scripts/gnorm/pruning/trajectory.py"
    module.write_text(module.read_text() + "\n# edited\n")
    made = run(trained, *GREEDY)
    assert "it belongs to another " in made.stderr and "scripts/gnorm/pruning/trajectory.py" in made.stderr
    same(trained, finished, GREEDY)
    record_property("tried", 2)
