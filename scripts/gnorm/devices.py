"""The device a job computes on: only the one it was given. On a GPU results are exact and repeatable."""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from gnorm import hardware
from gnorm.errors import UserError
from gnorm.logs import log

Result = TypeVar("Result")

_held: list[socket.socket] = []  # open as long as the process lives

# cuBLAS repeats its results to the bit only with a workspace of fixed size, which must be chosen before CUDA starts. A
# value that the user has set is kept.
FIXED = (":4096:8", ":16:8")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", FIXED[0])
NO_KERNEL = "does not have a deterministic implementation"  # part of torch's message


@functools.cache
def device() -> torch.device:
    """Choose the job's device. Schedulers hand out GPUs by CUDA_VISIBLE_DEVICES; Snakemake on one host does not."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "not set") or "empty"
    if not torch.cuda.is_available():
        if unused := hardware.unused_card(looked=True):
            log.warning("%s", unused)
        log.info("on cpu; CUDA_VISIBLE_DEVICES is %s", visible)
        return torch.device("cpu")
    count = torch.cuda.device_count()
    cards = _with_kernels(count)
    chosen = torch.device("cuda", cards[lease([_name(card) for card in cards]) if count > 1 else 0])
    torch.cuda.set_device(chosen)
    repeats = _exact_and_repeatable()
    log.info(
        "on %s; CUDA_VISIBLE_DEVICES is %s; %s, TF32 %s, deterministic %s",
        chosen,
        visible,
        torch.cuda.get_device_name(chosen),
        "off" if torch.get_float32_matmul_precision() == "highest" else "ON",
        repeats,
    )
    return chosen


def _name(card: int) -> str:
    return str(torch.cuda.get_device_properties(card).uuid)


def _with_kernels(count: int) -> list[int]:
    """List the cards that the installed torch has kernels for; raises an error if there is none."""
    capabilities = [torch.cuda.get_device_capability(card) for card in range(count)]
    usable = [card for card, own in enumerate(capabilities) if hardware.runs_on(own, torch.cuda.get_arch_list())]
    if not usable:
        major, minor = capabilities[0]
        raise UserError(
            f"torch {torch.__version__} has no kernels for {torch.cuda.get_device_name(0)} (compute capability "
            f"{major}.{minor}): install a build for another CUDA (docs/gpu.md), or set "
            'CUDA_VISIBLE_DEVICES="" to use the CPU'
        )
    return usable


def _exact_and_repeatable() -> str:
    """Set full float32 in every product, and kernels that repeat to the bit; returns "on", or "off" without these."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.utils.deterministic.fill_uninitialized_memory = False  # would cost time and change nothing
    workspace = os.environ["CUBLAS_WORKSPACE_CONFIG"]
    if workspace not in FIXED:
        log.warning(
            "CUBLAS_WORKSPACE_CONFIG is %s: results may differ from run to run; unset it, or take %s",
            workspace,
            FIXED[0],
        )
        return "off"
    # Not `warn_only`: with it the attention kernels keep their faster backward pass, which is not deterministic.
    torch.use_deterministic_algorithms(True)
    return "on"


def free_memory(card: torch.device) -> int:
    """Bytes of a card that this job can use: free ones, and those that torch holds in reserve."""
    return torch.cuda.mem_get_info(card)[0] + torch.cuda.memory_reserved(card) - torch.cuda.memory_allocated(card)


def repeatably(work: Callable[[], Result]) -> Result:
    """Do some work. Where an operation has no deterministic kernel, warn and repeat it without such kernels.

    The known families use no such operation; a model from outside may.
    """
    try:
        return work()
    except RuntimeError as error:
        if NO_KERNEL not in str(error) or not torch.are_deterministic_algorithms_enabled():
            raise
        operation = str(error).split(" ", 1)[0]
    torch.use_deterministic_algorithms(False)
    log.warning("%s has no deterministic kernel here: results may differ from run to run", operation)
    return work()


def lease(names: Sequence[str], every: float = 1.0) -> int:
    """Hold the first of these devices that no other process of this host holds; waits until one is free.

    A device is held by a socket whose name is in Linux' abstract namespace. It leaves no file behind, is free again
    however the process ends, and is respected by jobs of other folders and users too.
    """
    waiting = False
    while True:
        for index, name in enumerate(names):
            held = socket.socket(socket.AF_UNIX)
            try:
                held.bind(f"\0gnorm-device-{name}")
            except OSError:  # another process has it
                held.close()
                continue
            _held.append(held)
            return index
        if not waiting:
            log.info("all %d devices are taken, waiting for one: is --resources gpu=%d set?", len(names), len(names))
            waiting = True
        time.sleep(every)
