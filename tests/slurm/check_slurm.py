"""Two small models through a real Slurm, with jobs preempted and cancelled on the way; run by `make test-slurm`."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from support import ROOT, copy_workflow, finish, planned

GPUS = 2  # of the cluster, see cluster.py
PROFILE = ("--workflow-profile", "profiles/slurm")
# What a user changes in the profile for a cluster like this one, and shorter waits.
HERE = (
    "--slurm-no-account",
    "--slurm-status-command=squeue",
    "--slurm-init-seconds-before-status-checks=3",
    "--latency-wait=20",
)
SUITE = ("--config", "suite=slurm")
MODELS = ("BERT", "ROBERTA")  # both are interrupted
STRATEGIES = ("greedy_gnorm", "ae", "random")  # of config.yaml's; more would take longer and show the same
RANKED, RUNS = len(STRATEGIES) - 1, 3


def interrupt(*_):
    raise KeyboardInterrupt


signal.signal(signal.SIGTERM, interrupt)  # so that what was started is ended


def slurm(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@dataclass
class Seen:
    """What was watched while the workflow ran."""

    tree: Path
    output: str = ""
    most_gpus: int = 0
    cancelled: str | None = None  # the Slurm job
    preempted: list[str] = field(default_factory=list)
    steps: dict[str, int] = field(default_factory=dict)  # steps that a trajectory had made when it was stopped
    seconds: float = 0.0


def running(state: str = "RUNNING") -> dict[str, tuple[str, int]]:
    """Slurm job -> (comment: rule and wildcards, of which `own` is empty, GPUs it asked for)."""
    lines = slurm("squeue", "-h", "-t", state, "-O", "JobID:20,tres-per-job:60,Comment:200").splitlines()
    found = {}
    for line in lines:
        job, tres, comment = line[:20].strip(), line[20:80].strip(), line[80:].strip()
        gpus = re.search(r"gpu:(\d+)", tres)
        found[job] = (comment, int(gpus[1]) if gpus else 0)
    return found


def gpus_used() -> int:
    """Count the GPUs of the node that Slurm has given to jobs."""
    return int(re.search(r"GresUsed=gpu:(\d+)", slurm("scontrol", "-d", "show", "node"))[1])


def steps_of(tree: Path, model: str, strategy: str) -> int:
    """Steps that the interrupted trajectories of a job have on disk."""
    total = 0
    for path in tree.glob(f"results/slurm/state/{model}.{strategy}.run*.pt"):
        try:
            stored = torch.load(path, weights_only=True)["value"]
            total += len(stored["steps"]) if "steps" in stored else 0  # or it is what was answered on each row
        except OSError:  # finished and gone since
            continue
    return total


def watch(seen: Seen, process: subprocess.Popen) -> None:
    """Count GPUs in use; preempt a job and cancel another in the middle of a trajectory."""
    while process.poll() is None:
        jobs = running()
        seen.most_gpus = max(seen.most_gpus, gpus_used(), sum(gpus for _, gpus in jobs.values()))
        for job, (comment, _) in jobs.items():
            if "prune_heads" not in comment:
                continue
            if seen.cancelled is None and "slurm_BERT__greedy_gnorm" in comment:
                steps = steps_of(seen.tree, "BERT", "greedy_gnorm")
                if steps > 3:
                    slurm("scancel", job)
                    seen.cancelled, seen.steps["BERT"] = job, steps
            if not seen.preempted and "slurm_ROBERTA__greedy_gnorm" in comment:
                steps = steps_of(seen.tree, "ROBERTA", "greedy_gnorm")
                if steps > 3:
                    seen.preempted = [other for other, (_, gpus) in jobs.items() if gpus]
                    wanted = ["--partition=urgent", f"--gpus={GPUS}", "--mem=100", "--output=/dev/null"]
                    slurm("sbatch", *wanted, "--comment=urgent", "--wrap", "sleep 1")
                    seen.steps["ROBERTA"] = steps
        time.sleep(0.3)


def run(tree: Path, *arguments: str, watched: Seen | None = None) -> tuple[int, str]:
    """Snakemake through the profile, as a user starts it."""
    command = [sys.executable, "-m", "snakemake", *PROFILE, *HERE, *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SNAKEMAKE")}
    log = tree / "snakemake.out"
    with open(log, "w") as file:
        process = subprocess.Popen(command, cwd=tree, stdout=file, stderr=subprocess.STDOUT, env=environment)
        thread = threading.Thread(target=watch, args=(watched, process), daemon=True) if watched else None
        try:
            if thread:
                thread.start()
            process.wait(timeout=2700)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)  # cancels its jobs; at SIGTERM it would wait for them
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    process.kill()
    if thread:
        thread.join()
    return process.returncode, log.read_text()


def workflow(folder: Path) -> Path:
    """A copy of the workflow with the suite of this test and the strategies it needs."""
    tree = copy_workflow(folder)
    shutil.copy2(ROOT / "tests/slurm/suite.yaml", tree / "suites/slurm.yaml")
    config = yaml.safe_load((tree / "config.yaml").read_text())
    config["strategies"] = {name: config["strategies"][name] for name in STRATEGIES}
    (tree / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return tree


@pytest.fixture(scope="session")
def seen(tmp_path_factory) -> Seen:
    """The suite, from nothing to the report."""
    tree = workflow(tmp_path_factory.mktemp("cluster"))
    watched, began = Seen(tree), time.monotonic()
    code, watched.output = run(tree, *SUITE, watched=watched)
    watched.seconds = time.monotonic() - began
    print(f"\nthe suite through Slurm: {watched.seconds:.0f} s, at most {watched.most_gpus} GPUs at once")
    assert code == 0, watched.output[-6000:]
    return watched


@pytest.fixture(scope="session")
def local(tmp_path_factory) -> Path:
    """The same suite without Slurm."""
    return finish(workflow(tmp_path_factory.mktemp("local")), "slurm")


def logs(tree: Path, *rules: str) -> list[Path]:
    return [path for rule in rules for path in sorted((tree / "results/slurm/logs" / rule).rglob("*.log"))]


ON_GPU = ("make_checkpoint", "entropy_shard", "prune_heads", "random_pruning", "compare_criteria")
ON_GPU += ("gradient_change", "measure_controls", "measure_speed")


def test_the_results_are_those_of_the_local_run(seen, local):
    here, there = local / "results/slurm", seen.tree / "results/slurm"

    def computed(pattern):
        """Files of the models that ran, as the local run has them."""
        return sorted(path.relative_to(here) for model in MODELS for path in here.glob(f"{model}/{pattern}"))

    names = computed("trajectories/*/*.csv")
    assert len(names) == RANKED * len(MODELS)  # the three runs share a file
    for name in names:
        a, b = (pd.read_csv(root / name).drop(columns="seconds") for root in (here, there))
        assert a["run"].nunique() == RUNS
        pd.testing.assert_frame_equal(a, b, check_exact=True)
    for pattern in ("random/trials.csv", "criteria/scores.csv", "heads.json", "dataset/splits.json"):
        assert len(computed(pattern)) == len(MODELS)
        for name in computed(pattern):
            assert (here / name).read_bytes() == (there / name).read_bytes(), name
    tables, made = ({path.name for path in root.glob("tables/*.csv")} for root in (here, there))
    assert {"areas.csv", "criteria.csv", "random.csv", "solutions.csv"} <= made == tables
    for name in tables - {"speed.csv"}:  # which holds measured times
        assert (here / "tables" / name).read_bytes() == (there / "tables" / name).read_bytes(), name
    for name in computed("entropy/entropy.pt"):
        a, b = (torch.load(root / name, weights_only=True) for root in (here, there))
        assert torch.equal(a["mean"], b["mean"])
    assert (there / "report.html").exists() and (seen.tree / "figures/slurm/PruningResults.png").exists()


def test_every_job_that_computes_was_given_a_gpu_of_its_own(seen):
    found = []
    for path in logs(seen.tree, *ON_GPU):
        text = path.read_text()
        device = re.search(r"CUDA_VISIBLE_DEVICES is (.+)", text)
        assert device and device[1] in {str(i) for i in range(GPUS)}, path
        times = [datetime.fromisoformat(t.replace(",", ".")) for t in re.findall(r"^(\S+ \S+) [A-Z]+ ", text, re.M)]
        found.append((device[1], times[0], times[-1], path))
    assert {device for device, *_ in found} == {str(i) for i in range(GPUS)}
    found.sort(key=lambda entry: entry[:2])
    for (a, _, end, first), (b, begin, _, second) in itertools.pairwise(found):
        assert a != b or begin >= end, f"{first} and {second} used GPU {a} at the same time"


def test_no_more_gpus_are_used_than_the_cluster_has(seen):
    assert seen.most_gpus == GPUS


def test_a_cancelled_trajectory_is_submitted_again_and_continues(seen):
    assert seen.cancelled, "no trajectory could be cancelled in the middle"
    assert re.search(rf"SLURM-job '{seen.cancelled}' failed.*CANCELLED", seen.output)
    assert "Trying to restart job" in seen.output
    goes_on(seen, "BERT")


def test_a_preempted_trajectory_goes_back_into_the_queue_and_continues(seen):
    assert seen.preempted, "no trajectory could be preempted in the middle"
    restarts = [int(re.search(r"Restarts=(\d+)", slurm("scontrol", "show", "job", job))[1]) for job in seen.preempted]
    assert max(restarts) >= 1
    goes_on(seen, "ROBERTA")


def goes_on(seen: Seen, model: str) -> None:
    (path,) = [p for p in logs(seen.tree, "prune_heads") if p.parts[-3:-1] == (model, "greedy_gnorm")]
    reached = [int(step) for step in re.findall(r"run \d goes on after step (\d+)", path.read_text())]
    assert reached and sum(step + 1 for step in reached) >= seen.steps[model]
    assert not list(seen.tree.glob("results/slurm/state/*"))  # finished, so there is nothing to go on from


def test_short_jobs_share_a_job_of_slurm_one_after_another(seen):
    comments = [comment for comment, _ in running("all").values()]
    assert 1 <= sum(c.startswith("rule_entropy") for c in comments) <= 2  # of 8 shards
    jobs = RANKED * len(MODELS)  # the three runs share one
    assert sum(c.startswith("rule_prune_heads") for c in comments) == jobs + 1  # one was submitted twice
    local = ("draw_figure", "make_table", "merge_", "collect_results", "write_")
    local += ("export_accuracy", "export_random", "export_entropy")  # export_solution runs a model
    assert not [c for c in comments if c.startswith(tuple(f"rule_{name}" for name in local))]


def test_another_profile_reruns_nothing(seen):
    assert planned(seen.tree, *SUITE) == {}
    assert planned(seen.tree, *PROFILE, *HERE, *SUITE) == {}


@pytest.mark.parametrize(
    "rule,target,said",
    [
        ("prune_heads", "BERT/trajectories/ae/0-2.csv", "no node of the partition has what it asks for"),
        ("gradient_change", "BERT/gradient_change.npz", "the job it shared with others failed"),
    ],
)
def test_too_much_memory_is_refused_with_what_to_change(rule, target, said, seen):
    huge = ("--set-resources", f"{rule}:mem_mb=99999999", "--forcerun", rule, "--retries", "1")
    code, output = run(seen.tree, *huge, *SUITE, "--", f"results/slurm/{target}")
    assert code != 0
    (line,) = [line for line in output.splitlines() if line.startswith(f"{rule}: ")]
    assert f"{said} (mem_mb=99999999" in line
    assert "`memory_mb` in the suite" in line and f"set-resources: {rule}: mem_mb" in line
