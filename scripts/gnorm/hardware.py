"""What this machine could compute on, found without importing torch."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

DRIVER = Path("/proc/driver/nvidia/gpus")  # a folder for each card


def nvidia_cards(driver: Path = DRIVER) -> list[str]:
    """Names of the cards that the NVIDIA driver knows; none without a driver."""
    told = [path.read_text(encoding="utf-8") for path in sorted(driver.glob("*/information"))]
    if told:
        return [match[1] if (match := re.search(r"^Model:\s*(.+?)\s*$", text, re.M)) else "unknown" for text in told]
    if not shutil.which("nvidia-smi"):
        return []
    try:
        asked = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return re.findall(r"^GPU \d+: (.+?) \(UUID", asked.stdout, re.M)


def torch_cuda() -> str | None:
    """The version of CUDA that the installed torch is built for, None for a CPU build or without torch."""
    found = importlib.util.find_spec("torch")
    if not found or not found.origin:
        return None
    source = Path(found.origin).with_name("version.py")
    told = re.search(r"^cuda\b[^=]*= *['\"]([\d.]+)['\"]", source.read_text(encoding="utf-8"), re.M)
    return told[1] if told else None


def unused_card() -> str:
    """One line if there is a card that torch cannot use, with what to do about it; nothing if all is well."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):  # hidden on purpose
        return ""
    cards, cuda = nvidia_cards(), torch_cuda()
    if not cards:
        return ""
    if cuda:
        return (
            f"THE GPU IS NOT USED: this machine has {cards[0]}, and torch is built for CUDA {cuda} but finds no card. "
            "`nvidia-smi` must list it and show that CUDA version or a newer one: update the driver (docs/gpu.md)"
        )
    version = importlib.metadata.version("torch").split("+")[0]
    pip = f"{os.path.relpath(sys.executable)} -m pip"
    return (
        f"THE GPU IS NOT USED: this machine has {cards[0]}, but the installed torch is a CPU build. "
        f"For one with CUDA: {pip} uninstall -y torch && {pip} install torch=={version} (docs/gpu.md)"
    )
