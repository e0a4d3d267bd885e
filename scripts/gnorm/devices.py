"""Which device a job computes on: the one it was given, and no other."""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Sequence

import torch

from gnorm.logs import log

_held: list[socket.socket] = []  # for as long as the process lives


@functools.cache
def device() -> torch.device:
    """The job's device. Schedulers hand out GPUs by CUDA_VISIBLE_DEVICES; Snakemake on one host does not."""
    if not torch.cuda.is_available():
        chosen = torch.device("cpu")
    else:
        names = [str(torch.cuda.get_device_properties(i).uuid) for i in range(torch.cuda.device_count())]
        chosen = torch.device("cuda", lease(names) if len(names) > 1 else 0)
        torch.cuda.set_device(chosen)
    log.info("on %s; CUDA_VISIBLE_DEVICES is %s", chosen, os.environ.get("CUDA_VISIBLE_DEVICES") or "not set")
    return chosen


def lease(names: Sequence[str], every: float = 1.0) -> int:
    """The first of these devices that no other process of this host holds; waits for one if need be.

    A device is held by a socket whose name is in Linux' abstract namespace: there is no file to be left behind, it
    is free again however the process ends, and jobs of other folders and users respect it too.
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
