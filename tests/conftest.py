"""Fixtures: small models, and finished suites to look at."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side, and small models only lose by more
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # as the Snakefile sets it, before a library of the hub is imported

from support import FAMILIES, ROOT, Tiny, copy_workflow, finish, once

pytest_plugins = ["outcomes"]
collect_ignore = [] if "on_cards" in sys.modules else ["gpu"]  # they need pretended cards: make test-gpu


@pytest.fixture(params=FAMILIES)
def tiny(request) -> Tiny:
    return Tiny(request.param)


@pytest.fixture
def make_tiny():
    return Tiny


@pytest.fixture(scope="session")
def smoke(tmp_path_factory) -> Path:
    """A finished run of the suite `smoke` in a copy of the workflow; never change it, copy it."""
    return once(tmp_path_factory, "smoke", lambda folder: finish(copy_workflow(folder), "smoke"))


@pytest.fixture(scope="session")
def mini(tmp_path_factory) -> Path:
    """A finished run of the suite `mini`, starting from what `make demo` left here if it is still valid."""

    def make(folder: Path) -> Path:
        copy_workflow(folder)
        for name in ("results/mini", "figures/mini", ".snakemake"):
            if (ROOT / name).exists():
                subprocess.run(["cp", "-a", "--parents", name, str(folder)], cwd=ROOT, check=True)
        shutil.rmtree(folder / ".snakemake" / "locks", ignore_errors=True)
        shutil.rmtree(folder / ".snakemake" / "incomplete", ignore_errors=True)
        return finish(folder, "mini")

    return once(tmp_path_factory, "mini", make)


@pytest.fixture
def no_attention(monkeypatch):
    """Let CTRL give no attention weights second, as it does by itself on transformers 4."""
    from transformers.models.ctrl.modeling_ctrl import MultiHeadAttention

    from gnorm.models import versions

    if versions.FIVE:
        weighted = MultiHeadAttention.forward
        monkeypatch.setattr(MultiHeadAttention, "forward", lambda *args, **named: (weighted(*args, **named)[0], None))


@pytest.fixture
def copy_of():
    """A private copy of a finished tree, times of change kept, so that nothing in it is out of date."""
    made = []

    def copy(tree: Path, tmp_path: Path) -> Path:
        target = tmp_path / "tree"
        subprocess.run(["cp", "-a", str(tree), str(target)], check=True)
        made.append(target)
        return target

    yield copy
    for target in made:
        shutil.rmtree(target, ignore_errors=True)


@pytest.fixture
def small_disk(tmp_path):
    """A folder that takes 8 MB and not more."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True)
    if made.returncode:
        pytest.skip("a small disk cannot be mounted here: mount needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
