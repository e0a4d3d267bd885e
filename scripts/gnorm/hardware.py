"""The devices this machine could compute on, found without importing torch."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

DRIVER = Path("/proc/driver/nvidia/gpus")  # a folder for each card


def nvidia_cards(driver: Path = DRIVER) -> list[str]:
    """Names of the cards that the NVIDIA driver knows; none without a driver."""
    files = [path.read_text(encoding="utf-8") for path in sorted(driver.glob("*/information"))]
    if files:
        return [match[1] if (match := re.search(r"^Model:\s*(.+?)\s*$", text, re.M)) else "unknown" for text in files]
    if not shutil.which("nvidia-smi"):
        return []
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return re.findall(r"^GPU \d+: (.+?) \(UUID", listing.stdout, re.M)


def torch_cuda() -> str | None:
    """The version of CUDA that the installed torch is built for; empty for a CPU build, None without torch."""
    spec = importlib.util.find_spec("torch")
    if not spec or not spec.origin:
        return None
    source = Path(spec.origin).with_name("version.py")
    match = re.search(r"^cuda\b[^=]*= *['\"]([\d.]+)['\"]", source.read_text(encoding="utf-8"), re.M)
    return match[1] if match else ""


def usable_cards() -> int:
    """Count the cards that jobs can use: those of CUDA_VISIBLE_DEVICES or all; none if torch is a CPU build."""
    if not torch_cuda():
        return 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return len(nvidia_cards())
    return sum(name.strip() not in ("", "-1") for name in visible.split(","))


def unused_card(looked: bool = False) -> str:
    """Make one line about a card that torch cannot use, with what to do about it; empty if all is well.

    `looked` means that torch has looked for a card and found none. Before that only a CPU build is sure to find none.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):  # hidden on purpose
        return ""
    cuda = torch_cuda()
    if cuda is None or (cuda and not looked) or not (cards := nvidia_cards()):
        return ""
    if cuda:
        return (
            f"THE GPU IS NOT USED: this machine has {cards[0]}, and torch is built for CUDA {cuda} but finds no card. "
            "`nvidia-smi` must list it here (in a container: --gpus all, or --nv) and show that CUDA version or a "
            "newer one, else update the driver (docs/gpu.md)"
        )
    return f"THE GPU IS NOT USED: this machine has {cards[0]}, but the installed torch is a CPU build. {_cure()}"


def _cure() -> str:
    """Say how to replace a CPU build of torch here."""
    if Path(sys.prefix, "conda-meta").is_dir():
        return "Make this conda environment again where conda sees the card, or with CONDA_OVERRIDE_CUDA (docs/gpu.md)"
    pip, version = f"{os.path.relpath(sys.executable)} -m pip", importlib.metadata.version("torch").split("+")[0]
    return f"For one with CUDA: {pip} uninstall -y torch && {pip} install torch=={version} (docs/gpu.md)"


def runs_on(capability: tuple[int, int], built_for: Sequence[str]) -> bool:
    """Whether a build of torch has kernels for a card; `built_for` as torch.cuda.get_arch_list gives it.

    Machine code (sm_) runs on cards of its generation from that number on, PTX (compute_) on all later ones too.
    """
    known = re.findall(r"\b(sm|compute)_(\d+)(\d)", " ".join(built_for))  # nothing for cards of other makers
    for kind, major, minor in known:
        built = int(major), int(minor)
        if built <= capability and (kind == "compute" or built[0] == capability[0]):
            return True
    return not known


def processor() -> str:
    """The name of this machine's processor."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
