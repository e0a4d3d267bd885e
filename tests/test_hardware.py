"""A card that torch cannot use is told before anything runs."""

import os

import pytest
from conftest import copy_workflow, snakemake

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
    [("cuda: Optional[str] = None\n", None), ("cuda: Optional[str] = '13.0'\nhip = None\n", "13.0"), ("cuda = '12.6'\n", "12.6")],
)  # fmt: skip
def test_the_build_of_torch(tmp_path, monkeypatch, source, found):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("raise ImportError('it is not to be imported')")
    (tmp_path / "torch/version.py").write_text(f"__version__ = '2.13.0'\n{source}")
    spec = type("Spec", (), {"origin": str(tmp_path / "torch/__init__.py")})
    monkeypatch.setattr(hardware.importlib.util, "find_spec", lambda name: spec)
    assert hardware.torch_cuda() == found


def test_the_line_says_what_to_do(card, monkeypatch):
    monkeypatch.setattr(hardware, "torch_cuda", lambda: None)
    line = hardware.unused_card()
    assert line.startswith(
        "THE GPU IS NOT USED: this machine has NVIDIA GeForce RTX 4090, but the installed torch is a CPU"
    )
    assert (
        "pip uninstall -y torch && " in line and "pip install torch==2.13.0 (docs/gpu.md)" in line and "\n" not in line
    )
    monkeypatch.setattr(hardware, "torch_cuda", lambda: "13.0")
    assert "update the driver" in hardware.unused_card()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not hardware.unused_card()  # hidden on purpose
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(hardware, "nvidia_cards", lambda: [])
    assert not hardware.unused_card()


def test_it_is_told_before_anything_runs(card, tmp_path):
    """This machine's torch may have CUDA, and then it is right to say nothing."""
    tree = copy_workflow(tmp_path / "tree")
    wanted = "results/smoke/BERT/dataset/rows.parquet"
    made = snakemake(tree, "--quiet", "rules", "--config", "suite=smoke", "--", wanted)
    assert made.returncode == 0, made.stderr[-3000:]
    told = made.stderr.find("THE GPU IS NOT USED")
    if hardware.torch_cuda() is None:
        assert 0 <= told < made.stderr.find("[BERT dataset]")
        assert made.stderr.count("THE GPU IS NOT USED") == 1
    else:
        assert told < 0
