"""What can be said of clusters without one: the profile, requests, advice, and the guard of `make test-slurm`.

`make test-slurm` runs the workflow on a real Slurm.
"""

import logging
import os
import re
import time
from datetime import datetime
from itertools import pairwise

import cluster
import pytest
import yaml
from snakemake_interface_logger_plugins.common import LogEvent
from support import ROOT, planned, snakemake

from gnorm.planning import advice

SMOKE = ("--config", "suite=smoke")
PROFILE = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
RULES = "".join(path.read_text() for path in sorted((ROOT / "rules").glob("*.smk")))


def test_the_profile_names_rules_that_exist():
    known = {*re.findall(r"^ *rule (\w+):", RULES, re.M), "prune_heads"}
    assert {*PROFILE["set-resources"], *PROFILE["groups"]} <= known
    assert set(PROFILE["group-components"]) == set(PROFILE["groups"].values())


def test_rules_do_not_know_the_scheduler():
    code = re.sub(r"#.*", "", RULES + (ROOT / "Snakefile").read_text())
    assert not re.findall(r"slurm|sbatch|partition|qos", code, re.I)


def jobs(text):
    """(rule, its lines by name) of every job that a dry-run prints."""
    blocks = re.findall(r"^(?:local)?rule (\w+):\n((?:    .*\n)+)", text, re.M)
    return [(rule, dict(re.findall(r"^    (\w+): (.*)$", lines, re.M))) for rule, lines in blocks]


def dry_run(*arguments):
    made = snakemake(ROOT, "-n", "--forceall", *arguments)
    assert made.returncode == 0, made.stderr[-3000:]
    return jobs(made.stdout + made.stderr)


@pytest.fixture(scope="module")
def paper_jobs():
    return dry_run("--config", "suite=paper")


def resource(job, name):
    return int(re.search(rf"\b{name}=(\d+)", job["resources"])[1])


def test_requests_follow_from_the_model_and_grow_with_every_attempt(paper_jobs):
    def greedy(found, model):
        return next(
            job for _, job in found if f"model={model}, own=, strategy=greedy_gnorm" in job.get("wildcards", "")
        )

    again = dry_run("--config", "suite=paper", "--attempt", "2")
    small = dry_run(*SMOKE)
    for name in ("mem_mb", "runtime"):
        large, base, tiny = (
            resource(greedy(found, model), name)
            for found, model in ((paper_jobs, "ROBERTA"), (paper_jobs, "BERT"), (small, "BERT"))
        )
        assert large > base > tiny
        assert resource(greedy(again, "ROBERTA"), name) == 2 * large


def test_no_two_jobs_write_the_same_file(paper_jobs):
    written = [
        path
        for _, job in paper_jobs
        for key in ("output", "log", "benchmark")
        if key in job
        for path in job[key].split(", ")
    ]
    assert len(written) > 300 and len(written) == len(set(written))


def test_an_attempt_changes_no_parameter(smoke):
    """Or jobs would be done again because they asked for more."""
    assert planned(smoke, *SMOKE, "--attempt", "2") == {}
    assert planned(smoke, *SMOKE, "device_speed=20") == {}


def test_no_more_jobs_compute_at_once_than_there_are_devices(smoke, tmp_path, copy_of):
    tree = copy_of(smoke, tmp_path)
    files = [f"results/smoke/{model}/gradient_change.npz" for model in ("BERT", "ALBERT")]
    made = snakemake(tree, "--resources", "gpu=1", "--forcerun", "gradient_change", *SMOKE, "--", *files)
    assert made.returncode == 0, made.stderr[-3000:]
    spans = []
    for path in (tree / "results/smoke/logs/gradient_change").glob("*.log"):
        times = re.findall(r"^(\S+ \S+) [A-Z]+ ", path.read_text(), re.M)
        spans.append([datetime.fromisoformat(t.replace(",", ".")) for t in (times[0], times[-1])])
    assert len(spans) == 2
    assert all(first[1] <= second[0] for first, second in pairwise(sorted(spans)))


SLURM = """SLURM sbatch failed. The error message was 'sbatch: error: Memory specification can not be satisfied
sbatch: error: Batch job submission failed: Requested node configuration is not available'."""
ASKED = {"mem_mb": 999999, "mem": "1000 GB", "runtime": 11, "gpu": 1}


def job(rule: str, id: int, said: str | None = None, log: str = "") -> list[dict]:
    """What Snakemake's logger is told of a job that starts and fails."""
    start = {"event": LogEvent.JOB_INFO, "jobid": id, "resources": ASKED, "wildcards": {"suite": "paper", "model": "A"}}
    failed = {
        "event": LogEvent.JOB_ERROR,
        "jobid": id,
        "rule_name": rule,
        "rule_msg": said,
        "log": [log] if log else [],
    }
    return [start, failed]


def heard(*told: dict) -> list[str]:
    failures, logger = advice.Failures(ROOT / "profiles"), logging.Logger("snakemake")
    logger.addHandler(failures)
    for extra in told:
        logger.error(f"Error in group {extra.get('groupid')}", extra=extra)
    return failures.lines()


def test_a_refused_job_is_explained_once():
    first, line, *rest = heard(*job("prune_heads", 7, SLURM), *job("prune_heads", 7, SLURM))
    assert first == "WHAT WENT WRONG"
    assert line.startswith(
        "prune_heads: no node of the partition has what it asks for (mem_mb=999999, runtime=11, gpu=1)"
    )
    assert "set-resources: prune_heads: mem_mb" in line
    assert rest == ["    job: A", "Once that is mended, start the same command again: what is finished stays finished."]


def group(rule: str, id: int, log: str = "") -> list[dict]:
    start, failed = job(rule, id, log=log)
    return [start, {"event": LogEvent.GROUP_ERROR, "groupid": "gradients", "job_error_info": [{"jobid": id}]}, failed]


def test_a_refused_group_is_explained_by_its_rule():
    _, line, *_ = heard(*group("gradient_change", 12))
    assert line.startswith("gradient_change: the job it shared with others failed (mem_mb=999999, runtime=11, gpu=1)")


def test_a_job_of_a_group_that_says_more_itself_is_quoted(tmp_path):
    told = group("gradient_change", 12, str(tmp_path / "log"))
    failures = advice.Failures(ROOT / "profiles")
    logger = logging.Logger("snakemake")
    logger.addHandler(failures)
    logger.info("", extra=told[0])
    (tmp_path / "log").write_text("2026-11-17 02:19:18,001 ERROR row 3: no such label\n")
    os.utime(tmp_path / "log", (time.time() + 1,) * 2)
    for extra in told[1:]:
        logger.error("Error in group gradients", extra=extra)
    assert failures.lines()[1] == "gradient_change: row 3: no such label"


@pytest.mark.parametrize(
    "said,advised",
    [
        ("SLURM-job '5' failed, SLURM status is: 'OUT_OF_MEMORY'.", "took more memory"),
        ("SLURM-job '5' failed, SLURM status is: 'TIMEOUT'.", "continues where it stopped"),
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition combination",
            "slurm_account",
        ),
        ("SLURM-job '5' failed, SLURM status is: 'FAILED'.", "SLURM status is: 'FAILED'"),
    ],
)
def test_what_a_scheduler_says_is_told_apart(said, advised):
    assert advised in heard(*job("entropy_shard", 3, said))[1]


def test_a_job_that_succeeds_when_it_is_tried_again_has_not_failed():
    assert heard(*job("entropy_shard", 3, SLURM), {"event": LogEvent.JOB_FINISHED, "job_id": 3}) == [
        "Stopped before the end. To go on, start the same command again: what is finished stays finished."
    ]


def test_a_slurm_that_is_here_is_not_touched(tmp_path, monkeypatch):
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "slurm.conf").write_text("ClusterName=real\n")
    with pytest.raises(cluster.Refused, match="there is a Slurm here"):
        cluster.start(tmp_path / "test", etc)
    assert (etc / "slurm.conf").read_text() == "ClusterName=real\n" and not (tmp_path / "test").exists()
    (etc / "slurm.conf").unlink()
    monkeypatch.setenv("SLURM_CONF", "/somewhere/slurm.conf")
    with pytest.raises(cluster.Refused, match="SLURM_CONF"):
        cluster.check(etc)


def test_what_the_package_brings_is_no_configuration(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "processes", lambda *names: [])
    monkeypatch.delenv("SLURM_CONF", raising=False)
    (tmp_path / "plugstack.conf.d").mkdir()
    (tmp_path / "plugstack.conf").write_text("include plugstack.conf.d/*.conf\n")
    cluster.check(tmp_path)
    (tmp_path / "gres.conf").write_text("Name=gpu\n")
    with pytest.raises(cluster.Refused, match="there is a Slurm here"):
        cluster.check(tmp_path)


def test_what_a_killed_test_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "processes", lambda *names: [])
    etc, folder = tmp_path / "etc", tmp_path / "left"
    etc.mkdir()
    folder.mkdir()
    (folder / "made-etc").touch()
    (etc / "slurm.conf").write_text(f"{cluster.OURS}{folder}\nClusterName=nonesuch\n")
    (etc / "gres.conf").write_text("")
    cluster.check(etc)
    assert not etc.exists() and not folder.exists()
