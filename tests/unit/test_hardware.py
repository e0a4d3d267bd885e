"""A card that torch cannot use is told before anything runs."""

import os

import pytest
from support import copy_workflow, snakemake

from gnorm import hardware

TOLD = "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-1b2c)\nGPU 1: NVIDIA T4 (UUID: GPU-2b2c)\n"


@pytest.fixture
def card(tmp_path, monkeypatch):
    """An nvidia-smi that knows two cards."""
    tool = tmp_path / "bin/nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\n[ \"$1\" = -L ] && printf '{TOLD}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_cards_as_the_driver_lists_them(tmp_path):
    for i, model in enumerate(("NVIDIA H100", "NVIDIA A100-SXM4-80GB")):
        (tmp_path / f"0000:{i}").mkdir()
        (tmp_path / f"0000:{i}/information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 11\nGPU UUID: \t GPU-{i}\n")
    assert hardware.nvidia_cards(tmp_path) == ["NVIDIA H100", "NVIDIA A100-SXM4-80GB"]


def test_cards_as_nvidia_smi_lists_them(card, tmp_path):
    assert hardware.nvidia_cards(tmp_path / "none") == ["NVIDIA GeForce RTX 4090", "NVIDIA T4"]


@pytest.mark.parametrize(
    "source,found",
    [
        ("cuda: Optional[str] = None\n", ""),
        ("cuda: Optional[str] = '13.0'\nhip = None\n", "13.0"),
        ("cuda = '12.6'\n", "12.6"),
    ],
)
def test_the_build_of_torch(tmp_path, monkeypatch, source, found):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("raise ImportError('it is not to be imported')")
    (tmp_path / "torch/version.py").write_text(f"__version__ = '2.13.0'\n{source}")
    spec = type("Spec", (), {"origin": str(tmp_path / "torch/__init__.py")})
    monkeypatch.setattr(hardware.importlib.util, "find_spec", lambda name: spec)
    assert hardware.torch_cuda() == found


def test_the_line_says_what_to_do(card, monkeypatch):
    monkeypatch.setattr(hardware, "torch_cuda", lambda: "")
    line = hardware.unused_card()
    assert line.startswith(
        "THE GPU IS NOT USED: this machine has NVIDIA GeForce RTX 4090, but the installed torch is a CPU"
    )
    assert (
        "pip uninstall -y torch && " in line and "pip install torch==2.13.0 (docs/gpu.md)" in line and "\n" not in line
    )
    assert hardware.unused_card(looked=True) == line
    monkeypatch.setattr(hardware, "torch_cuda", lambda: None)
    assert not hardware.unused_card(looked=True)  # without torch, jobs say so themselves


def test_a_conda_environment_is_not_mended_by_pip(card, tmp_path, monkeypatch):
    (tmp_path / "conda-meta").mkdir()
    monkeypatch.setattr(hardware, "torch_cuda", lambda: "")
    monkeypatch.setattr(hardware.sys, "prefix", str(tmp_path))
    assert "CONDA_OVERRIDE_CUDA" in hardware.unused_card() and "pip" not in hardware.unused_card()


def test_a_build_with_cuda_is_told_only_when_it_found_no_card(card, monkeypatch):
    monkeypatch.setattr(hardware, "torch_cuda", lambda: "13.0")
    assert not hardware.unused_card()
    assert "built for CUDA 13.0 but finds no card" in hardware.unused_card(looked=True)


def test_nothing_is_said_without_a_card_or_where_it_is_hidden(card, monkeypatch):
    monkeypatch.setattr(hardware, "torch_cuda", lambda: "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not hardware.unused_card(looked=True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(hardware, "nvidia_cards", lambda: [])
    assert not hardware.unused_card(looked=True)


@pytest.mark.parametrize(
    "visible,cuda,count",
    [(None, "13.0", 2), (None, "", 0), ("1", "13.0", 1), ("0,1,2", "13.0", 3), ("", "13.0", 0), ("-1", "13.0", 0)],
)
def test_how_many_jobs_can_have_a_card(card, visible, cuda, count, monkeypatch):
    monkeypatch.setattr(hardware, "torch_cuda", lambda: cuda)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert hardware.usable_cards() == count


@pytest.mark.parametrize(
    "capability,built_for,runs",
    [
        ((8, 9), ["sm_75", "sm_80", "sm_90"], True),  # of the same generation
        ((7, 0), ["sm_75", "sm_80", "sm_90"], False),  # older than all
        ((10, 3), ["sm_90", "sm_100", "sm_120"], True),
        ((12, 0), ["sm_80", "sm_90a"], False),  # newer, without PTX
        ((12, 0), ["sm_80", "compute_90"], True),
        ((8, 0), [], True),  # not known
        ((9, 0), ["gfx90a", "gfx942"], True),  # another maker's
    ],
)
def test_which_cards_a_build_has_kernels_for(capability, built_for, runs):
    assert hardware.runs_on(capability, built_for) == runs


@pytest.mark.parametrize("cuda", ["None", "'13.0'"])
def test_it_is_told_before_anything_runs(card, cuda, tmp_path, monkeypatch):
    """By Snakemake, of a CPU build; a build with CUDA is for the jobs to judge."""
    package = tmp_path / "packages/torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "version.py").write_text(f"cuda = {cuda}\n")
    tree = copy_workflow(tmp_path / "tree")
    wanted = "results/smoke/BERT/dataset/rows.parquet"  # is made without torch
    settings = {"PYTHONPATH": str(package.parent)}
    made = snakemake(tree, "--quiet", "rules", "--config", "suite=smoke", "--", wanted, **settings)
    assert made.returncode == 0, made.stderr[-3000:]
    told = made.stderr.find("THE GPU IS NOT USED")
    if cuda == "None":
        assert 0 <= told < made.stderr.find("[BERT dataset]")
        assert made.stderr.count("THE GPU IS NOT USED") == 1
    else:
        assert told < 0
