"""Files in the working directory are never taken for modules: not by Snakemake, not by a report, not by a job.

A file with the name of every library lies there, and leaves a line where it is run.
"""

import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from support import ROOT, copy_workflow

SNAKEMAKE = str(Path(sys.executable).with_name("snakemake"))  # as a user calls it
# What libraries look for although it is not installed.
WISHED = {"accelerate", "bottleneck", "flash_attn", "kernels", "numexpr", "torchvision"}
OWN = {"gnorm", *(path.stem for path in (ROOT / "scripts").glob("*.py"))}
STARTED = {"sitecustomize", "usercustomize", "snakemake_executor_plugin_own"}
NAMES = {*sys.stdlib_module_names, *packages_distributions(), *WISHED, *OWN, *STARTED}
SHADOW = """import sys
with open({ran!r}, "a") as file:
    file.write(f"{{__name__}}, by {{' '.join(sys.argv)[:200]}}\\n")
raise ImportError(__name__)
"""

# What an executor does whose jobs start elsewhere: nothing of the environment comes along but what Snakemake declares.
ELSEWHERE = """
import os
import subprocess

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings

common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_envvar_declarations_to_cmd=True,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=0,
)


class Executor(RemoteExecutor):
    def run_job(self, job):
        script = self.get_jobscript(job)
        self.write_jobscript(job, script)
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "OMP_NUM_THREADS") if name in os.environ}
        done = subprocess.run(["sh", script], env=kept)
        self.report_job_submission(SubmittedJobInfo(job, aux={"done": done.returncode}))

    async def check_active_jobs(self, active_jobs):
        for submitted in active_jobs:
            report = self.report_job_error if submitted.aux["done"] else self.report_job_success
            report(submitted)
        for still in ():
            yield still

    def cancel_jobs(self, active_jobs):
        pass
"""

# A report of one table, by the script that writes those of suites, in a workflow as short as can be.
WORKFLOW = """
include: "{rules}/path.smk"


rule all:
    input:
        "table.html",


rule table:
    output:
        report("table.html"),
    shell:
        "echo a table > {{output}}"
"""
REPORT = """
import sys
sys.path.insert(0, {scripts!r})
import write_report
write_report.main(
    config={{"suite": "one"}},
    snakefile="Snakefile",
    targets=["all"],
    config_file="config.yaml",
    report_file="report.html",
)
"""


@pytest.fixture
def ran(tmp_path):
    """A file with a line of each module that was taken from where it must not be."""
    path = tmp_path / "ran"
    path.touch()
    return path


def shadow(folder: Path, ran: Path, names=NAMES) -> Path:
    """Put a file of every library's name into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in filter(str.isidentifier, names):
        (folder / f"{name}.py").write_text(SHADOW.format(ran=str(ran)))
    return folder


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SNAKEMAKE", "PYTHON"))} | variables
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=300)


def test_a_shadow_runs_where_python_is_not_told_otherwise(tmp_path, ran):
    """Or the tests below would show nothing."""
    shadow(tmp_path / "here", ran)
    for command in (["-m", "snakemake", "--version"], ["-c", "import colorsys"]):
        assert run(tmp_path / "here", sys.executable, *command).returncode
    assert len(ran.read_text().splitlines()) == 2


@pytest.mark.stranger(
    "`random.py`, `json.py`, `torch.py` and every other library's name beside the configuration, and in `.snakemake`",
    "none is run: not when Snakemake reads the workflow, nor by jobs here or on another machine",
)
def test_jobs_take_no_module_from_the_working_directory(tmp_path, ran):
    tree = copy_workflow(tmp_path / "tree")
    for folder in (".", ".snakemake/scripts"):
        shadow(tree / folder, ran)
    plugin = tmp_path / "plugins" / "snakemake_executor_plugin_elsewhere"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").write_text(ELSEWHERE)
    targets = ("results/smoke/BERT/dataset/summary.md", "results/smoke/paper_parameters.csv")  # there, and here
    made = run(
        tree,
        SNAKEMAKE,
        *("--cores", "1", "--jobs", "1", "--executor", "elsewhere", "--config", "suite=smoke", "--", *targets),
        PYTHONPATH=str(plugin.parent),
    )
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-4000:]
    assert all((tree / path).exists() for path in targets)
    assert ran.read_text() == ""


@pytest.mark.stranger(
    "modules in `.snakemake/pip-deployments`, where Snakemake looks for plugins",
    "one line says to remove them, before any rule is read",
)
def test_plugins_that_lie_here_are_refused(tmp_path, ran):
    tree = copy_workflow(tmp_path / "tree")
    shadow(tree / ".snakemake/pip-deployments", ran, ["accelerate"])  # transformers looks for it
    made = run(tree, SNAKEMAKE, "-n", "--config", "suite=smoke")
    assert made.returncode == 1 and made.stderr.rstrip().endswith("remove it"), made.stderr[-1000:]
    assert ran.read_text() == ""


@pytest.mark.stranger(
    "the same beside the configuration while the report is written", "none is run; the report is that of the results"
)
def test_the_report_takes_no_module_from_the_working_directory(tmp_path, ran):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "Snakefile").write_text(WORKFLOW.format(rules=ROOT / "rules"))
    made = run(folder, SNAKEMAKE, "--cores", "1", "--quiet")
    assert made.returncode == 0, made.stderr[-3000:]
    shadow(folder, ran)
    program = tmp_path / "program.py"  # Python looks beside it, not here
    program.write_text(REPORT.format(scripts=str(ROOT / "scripts")))
    made = run(folder, sys.executable, str(program))
    assert made.returncode == 0, made.stderr[-3000:]
    assert ran.read_text() == ""
    assert "table.html" in (folder / "report.html").read_text()


@pytest.mark.stranger("`pip.py` in the working directory while pip is asked for its settings", "it is not run")
def test_pip_is_the_one_that_is_installed(tmp_path, ran, monkeypatch):
    from gnorm.data import archives

    monkeypatch.chdir(shadow(tmp_path / "here", ran))
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    assert isinstance(archives.pip_settings(), dict)
    assert ran.read_text() == ""


APPTAINER = """#!/bin/sh
if [ "$1" = --version ]; then echo apptainer version 1.3.4; exit; fi
env | grep ^APPTAINERENV_ | sort > {told}
exit 1
"""


@pytest.mark.stranger(
    "packages in `.local` of the working directory, which is the home of a job in a container",
    "Python there does not look for them",
)
def test_a_container_has_no_packages_of_the_working_directory(tmp_path):
    """Apptainer takes variables of such names off the host, whatever else it leaves out."""
    tree, programs, told = copy_workflow(tmp_path / "tree"), tmp_path / "bin", tmp_path / "told"
    programs.mkdir()
    (programs / "apptainer").write_text(APPTAINER.format(told=told))
    (programs / "apptainer").chmod(0o755)
    (tree / "image.sif").touch()
    made = run(
        tree,
        *(SNAKEMAKE, "--cores", "1", "--sdm", "apptainer", "--config", "suite=smoke", "container=image.sif"),
        *("--", "results/smoke/BERT/dataset/summary.md"),
        PATH=os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"])),
    )
    assert made.returncode == 1 and "Activating singularity image" in made.stderr, made.stderr[-3000:]
    assert told.read_text().split() == ["APPTAINERENV_PYTHONNOUSERSITE=1", "APPTAINERENV_PYTHONSAFEPATH=1"]
