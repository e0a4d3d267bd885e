"""Seconds and peak memory of a piece of work."""

from __future__ import annotations

import ctypes
import gc
import re
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path

import psutil
import torch

from gnorm.hardware import processor

M_MMAP_THRESHOLD = -3  # malloc.h
TORCH = Path(torch.__file__).parent


def machine() -> str:
    """Name the machine and the date."""
    today = f"on {date.today().isoformat()}, torch {torch.__version__}"
    if torch.cuda.is_available():
        return f"{torch.cuda.get_device_name()} {today}"
    threads = torch.get_num_threads()
    return f"{threads} thread{'s' if threads > 1 else ''} of {processor()} {today}"


def seconds(work: Callable[[], object]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began


def waits(work: Callable[[], object]) -> Counter[str]:
    """Count how often the host waited for the GPU while `work` ran, by file and line, as far as torch reports it.

    Torch reports the innermost line, which may be its own. The line that called torch is counted instead.
    """
    places: Counter[str] = Counter()

    def count(message, category, filename, lineno, *_):
        if "synchronizing CUDA" not in str(message):
            return
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename != filename:  # out of the warnings module
            frame = frame.f_back
        while frame.f_back and Path(frame.f_code.co_filename).is_relative_to(TORCH):
            frame = frame.f_back
        places[f"{frame.f_code.co_filename}:{frame.f_lineno}"] += 1

    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = count
        torch.cuda.set_sync_debug_mode("warn")
        try:
            work()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    return places


def own(places: Counter[str]) -> int:
    """Count the waits that are not inside transformers or TextPruner."""
    return sum(count for place, count in places.items() if not re.search(r"/(transformers|textpruner)/", place))


def peak_mb(work: Callable[[], object], every: float = 0.002) -> float:
    """Measure the peak memory of `work` beyond that in use before, on the GPU if there is one.

    On the CPU this makes later allocations slower: measure time first.
    """
    gc.collect()
    if torch.cuda.is_available():
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        work()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    if sys.platform == "linux":  # glibc: a tensor's memory goes back to the system when the tensor goes
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, 64 * 2**10)
        library.malloc_trim(0)
    process = psutil.Process()
    before = peak = process.memory_info().rss
    done = threading.Event()

    def sample():
        nonlocal peak
        while not done.wait(every):
            peak = max(peak, process.memory_info().rss)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        work()
    finally:
        done.set()
        sampler.join()
    return (peak - before) / 2**20
