"""`make check-gpu` on two pretended cards."""

import os
import subprocess
import sys

from support import ROOT


def test_the_whole_check(tmp_path):
    cards = {"PYTHONPATH": str(ROOT / "tests/gpu/everywhere"), "PRETENDED_CARDS": "2", "PRETENDED_HOST": str(tmp_path)}
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts/check_gpu.py"), "--quick"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, **cards},
    )
    assert made.returncode == 0, made.stdout + made.stderr[-2000:]
    page = (tmp_path / "results/check-gpu/README.md").read_text()
    assert "Everything is as it should be." in page and "| **NO** |" not in page
    for said in (
        "| training twice gives the same bytes | all 41 tensors are the same | yes |",
        "| greedy order is the CPU's, but for near-ties | the same 8 heads | yes |",
        "| two jobs on two cards | cuda:0 and cuda:1 | yes |",
        "| both have pruned the same heads | yes | yes |",
        "| deterministic kernels are on | yes | yes |",
        "| TF32 is off: error of a float32 product |",
        "| a step: prune, score and evaluate them |",
    ):
        assert said in page, page
