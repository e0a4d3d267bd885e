"""Loads card.cpp, compiled once for the torch that is installed. Import it before torch, which asks for hooks once."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path

TORCH = Path(importlib.util.find_spec("torch").origin).parent


def load() -> None:
    source = Path(__file__).resolve().with_name("card.cpp")
    key = hashlib.sha256(source.read_bytes() + str(TORCH).encode()).hexdigest()[:16]
    made = Path(tempfile.gettempdir(), f"pretended-card-{os.getuid()}-{key}.so")
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
            new = Path(scratch, made.name)
            command = ["g++", "-std=c++20", "-shared", "-fPIC", f"-I{TORCH}/include", str(source), "-o", str(new)]
            subprocess.run([*command, f"-L{TORCH}/lib", "-lc10", "-ltorch_cpu"], check=True)
            new.rename(made)
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(TORCH / "lib" / name), mode=ctypes.RTLD_GLOBAL)
    ctypes.CDLL(str(made)).pretend()


load()
