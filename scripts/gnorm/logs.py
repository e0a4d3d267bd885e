"""One logging set-up for every rule: to its log file and to the terminal."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from gnorm.errors import UserError, printable

Item = TypeVar("Item")
log = logging.getLogger("gnorm")


class Printable(logging.Formatter):
    """Writes messages that may quote anybody's text."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def start(path: str, label: str) -> logging.Logger:
    """Log to `path` and to the terminal, where `label` tells parallel jobs apart; details for the file alone.

    An uncaught exception goes to both too, a user's mistake as a single line.
    """
    log.setLevel(logging.DEBUG)
    log.handlers.clear()
    to_file, to_terminal = logging.FileHandler(path, mode="w", encoding="utf-8"), logging.StreamHandler()
    to_file.setFormatter(Printable("%(asctime)s %(levelname)s %(message)s"))
    to_terminal.setFormatter(Printable(f"[{label}] %(message)s"))
    to_terminal.setLevel(logging.INFO)
    for handler in (to_file, to_terminal):
        log.addHandler(handler)

    def report(kind, error, trace):
        if issubclass(kind, UserError):
            log.error("%s", error)
        else:
            log.error("stopped by an error", exc_info=(kind, error, trace))

    def end(number, _frame):
        log.warning(
            "ended by %s; what is finished is kept, the next run goes on from there", signal.Signals(number).name
        )
        raise SystemExit(128 + number)  # so that temporary files are removed on the way out

    gc.freeze()  # imported objects stay: searching them for garbage, also at exit, takes one second per job
    sys.excepthook = report
    signal.signal(signal.SIGTERM, end)
    logging.raiseExceptions = False  # a full disk must not hide its message behind errors of the log file
    return log


def progress(items: Iterable[Item], what: str, total: int, every: float = 15.0) -> Iterator[Item]:
    """Pass `items` through and log their progress, at most once in `every` seconds.

    Writes whole lines instead of a redrawn bar, so that a log file stays readable.
    """
    began = last = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if done and now - last >= every:
            left = (now - began) / done * (total - done)
            log.info("%s %d/%d, about %.0f s left", what, done, total, left)
            last = now
        yield item
