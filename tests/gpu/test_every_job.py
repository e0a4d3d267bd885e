"""What jobs give on a card is what they give on the CPU."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pretended
import pytest
import torch
from jobs import FAMILIES, STRATEGIES, Jobs, all_jobs, on_disk, read_json
from support import ROOT

from gnorm.files import load_tensors


@pytest.mark.parametrize("family", FAMILIES)
def test_every_job_gives_what_the_cpu_gives(family, tmp_path, fresh, short_probe):
    with pretended.on_cpu():
        source = on_disk(tmp_path / "source", family)
        here = Jobs(tmp_path / "here", family, source)
        all_jobs(here)
    fresh()
    there = Jobs(tmp_path / "there", family, source)
    pretended.USED.clear()
    all_jobs(there)
    assert pretended.USED["mm"] + pretended.USED["addmm"] > 100  # it was the card that computed
    assert torch.are_deterministic_algorithms_enabled()  # no job met an operation that is not

    for name in [f"{name}/runs.csv" for name in STRATEGIES if name != "bfloat16"]:
        of_run(here, there, name, 1e-4)
    a, b = (jobs.table("bfloat16/runs.csv") for jobs in (here, there))  # devices round differently
    assert a["correct"].iloc[[0, -1]].tolist() == b["correct"].iloc[[0, -1]].tolist()
    close(*(jobs.table("random.csv") for jobs in (here, there)), 1e-4)
    close(*(jobs.table("criteria/0-0.csv") for jobs in (here, there)), 1e-12)
    one, two = (jobs.table("criteria/0-0.scores.csv") for jobs in (here, there))
    for name in one["criterion"].unique():
        a, b = (t[t["criterion"] == name].sort_values(["layer", "head"]) for t in (one, two))
        assert a["rank"].tolist() == b["rank"].tolist(), name
        np.testing.assert_allclose(b["score"], a["score"], rtol=1e-3, atol=1e-5, err_msg=name)
    for name in here.shards[0], here.shards[1]:
        a, b = (load_tensors(Path(jobs.folder, "shards", Path(name).name)) for jobs in (here, there))
        torch.testing.assert_close(a["ranked"], b["ranked"], rtol=1e-5, atol=1e-6)
    a, b = (np.load(jobs.folder / "gradient_change.npz")["change"] for jobs in (here, there))
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5 * np.abs(a).max())
    a, b = (read_json(jobs.folder / "controls.json") for jobs in (here, there))
    assert {k: v["correct"] for k, v in a.items()} == {k: v["correct"] for k, v in b.items()}
    a, b = (read_json(jobs.folder / "solution.json") for jobs in (here, there))
    assert a["pruned_slots"] == b["pruned_slots"] and a["after"] == b["after"]
    assert (here.folder / "mask.csv").read_bytes() == (there.folder / "mask.csv").read_bytes()
    assert (here.folder / "neurons.csv").read_bytes() == (there.folder / "neurons.csv").read_bytes()
    a, b = (jobs.weights("exported") for jobs in (here, there))
    assert a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
    a, b = (jobs.weights("trained") for jobs in (here, there))
    assert a.keys() == b.keys() and all(torch.allclose(a[name], b[name], atol=1e-3) for name in a)
    assert read_json(there.budget)["tokens"] >= 256  # found by a probe, and the same for all jobs


def of_run(here, there, name, tolerance):
    """The same heads and accuracies at every step, and nearly the same scores."""
    one, two = (jobs.table(name) for jobs in (here, there))
    for column in ("run", "layer", "head", "correct", "heads_pruned", "heads_left", "parameters"):
        pd.testing.assert_series_equal(one[column], two[column])
    close(one, two, tolerance)


def close(one, two, tolerance):
    assert list(one) == list(two)
    for column in one.columns.drop("seconds", errors="ignore"):
        if one[column].dtype.kind == "f":
            np.testing.assert_allclose(two[column], one[column], rtol=tolerance, atol=1e-7, err_msg=column)
        else:
            assert one[column].tolist() == two[column].tolist(), column


def test_no_job_that_asks_for_a_gpu_is_left_out():
    asked = set()
    for path in (ROOT / "rules").glob("*.smk"):
        for block in re.split(r"^ *rule\b", path.read_text(), flags=re.M)[1:]:
            if "gpu=1" in block and path.stem != "bench":
                asked.add(re.search(r"\.\./scripts/(\w+)\.py", block)[1])
    assert asked and asked <= {name for name in dir(Jobs) if not name.startswith("_")}
