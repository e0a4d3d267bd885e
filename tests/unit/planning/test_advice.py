"""What is said last when a run fails."""

import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
import yaml
from support import copy_workflow, run_python, snakemake

from gnorm.planning import advice

PROGRAM = """
import sys
from gnorm.errors import UserError
from gnorm.logs import log, start
start(sys.argv[1], "job")
log.info("started")
raise {}
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("UserError('row 3: no label')", "row 3: no label"),
        ("UserError('two lines,\\nboth of them')", "two lines, both of them"),
        ("ValueError('what now?')", "it stopped with an error that nobody expected (ValueError: what now?)."),
        (
            "ValueError('bad thing:\\n detail one\\n detail two')",
            "it stopped with an error that nobody expected (ValueError: bad thing:).",
        ),
        (
            "ValueError('bad thing:\\nmore\\n\\n detail\\nend') from KeyError('first')",
            "it stopped with an error that nobody expected (ValueError: bad thing:).",
        ),
        ("RuntimeError", "it stopped with an error that nobody expected (RuntimeError)."),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("SystemExit(0)", ""),
    ],
)
def test_the_error_in_a_real_log(error, said, tmp_path):
    run_python(PROGRAM.format(error), str(tmp_path / "log"))
    found = advice.last_error(tmp_path / "log", 0.0)
    assert found.startswith(said) and bool(found) == bool(said)


def test_an_old_log_says_nothing(tmp_path):
    (tmp_path / "log").write_text("2026-11-19 03:37:50,576 ERROR of another day\n")
    assert advice.last_error(tmp_path / "log", 0.0) == "of another day"
    assert advice.last_error(tmp_path / "log", (tmp_path / "log").stat().st_mtime + 1) == ""
    assert advice.last_error(tmp_path / "none", 0.0) == ""


@pytest.mark.parametrize("options", [(), ("--quiet", "rules")])
@pytest.mark.fault(
    "a job fails, with and without `--quiet rules`",
    "the last lines on screen are what went wrong, where the log is, and what to do",
)
def test_the_last_lines_of_a_failed_run(options, tmp_path):
    tree = copy_workflow(tmp_path)
    (tree / "rows.csv").write_text("text,label\na,x\nb,y\nc,other\n")
    dataset = {"source": "file", "path": "rows.csv", "text": "text", "label": "label", "classes": ["x", "y"]}
    entry = {"dataset": dataset, "checkpoint": {"source": "train", "family": "bert", "epochs": 1}}
    entry |= {"rows": {"train": 1, "calibration": 1, "evaluation": 1}, "random": {"levels": 2}}
    (tree / "suites/own.yaml").write_text(yaml.safe_dump({"models": {"A": entry}}))
    made = snakemake(tree, *options, "--config", "suite=own", "--", "datasets")
    assert made.returncode == 1
    *_, title, error, job, log, again = made.stderr.splitlines()
    assert title == "WHAT WENT WRONG"
    assert error == (
        "make_dataset: dataset rows.csv, row 2: label 'other' is none of the classes (x, y); "
        "add it to `classes:` or to `unscored:`"
    )
    assert (job, log) == ("    job: A", "    log: results/own/logs/make_dataset/A.log")
    assert again == "Once that is mended, start the same command again: what is finished stays finished."


@pytest.mark.fault("a run is stopped by Ctrl-C", "the last line says that it was, and how it goes on")
def test_a_run_that_is_stopped_by_hand_is_no_failure(tmp_path):
    tree = copy_workflow(tmp_path)
    target = ("--config", "suite=smoke", "--", "results/smoke/BERT/checkpoint")
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *target]
    options = {"stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # tests in the background of a shell ignore it
    run = subprocess.Popen(command, cwd=tree, preexec_fn=heeds, **options)
    while not (tree / "results/smoke/logs/make_dataset/BERT.log").exists():
        assert run.poll() is None, run.stderr.read()[-3000:]
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)  # as the terminal does
    last = run.communicate(timeout=120)[1].splitlines()[-1]
    assert run.returncode == 1
    assert last == "Stopped before the end. To go on, start the same command again: what is finished stays finished."
    assert not (tree / "results/smoke/running.json").exists()
