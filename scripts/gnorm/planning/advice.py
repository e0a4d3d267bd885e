"""What went wrong in a run and what to change: the last lines that a user sees.

Snakemake's own report of a failed job is long, and its last line says only that there was one. So failures are heard
of while a run goes on, and said once more when Snakemake has said all it has to say. A scheduler's words stay in its
profile: `profiles/*/advice.yaml` lists patterns of its messages and what each means to the user.
"""

from __future__ import annotations

import atexit
import logging
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import yaml

from gnorm.errors import printable

ASKED = ("mem_mb", "runtime", "gpu")
RECORD = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (?P<level>[A-Z]+) ", re.M)  # as gnorm.logs writes them
STOPPED_BY = "stopped by an error\n"  # ... and begins what is followed by a traceback
BY_HAND = ("KeyboardInterrupt", "ended by ")  # how the log of a job ends that was stopped from outside
# What Snakemake says when it was stopped itself, by Ctrl-C or SIGTERM.
STOPPED = ("Terminating processes on user request", "Will exit after finishing currently running jobs")
AGAIN = "start the same command again: what is finished stays finished."


@dataclass(frozen=True)
class Failure:
    rule: str
    wildcards: str
    said: str  # by whoever ran it
    asked: str
    log: str
    own: str  # what the job's log says last of an error


class Failures(logging.Handler):
    """Hears from Snakemake's logger which jobs failed, and forgets those that succeeded when they were tried again."""

    def __init__(self, profiles: Path):
        super().__init__(logging.INFO)
        paths = sorted(profiles.glob("*/advice.yaml"))
        self.known = [entry for path in paths for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]
        self.started: dict[int, logging.LogRecord] = {}
        self.groups: dict[int, str] = {}  # what was said of the group that a job is in
        self.failed: dict[int, Failure] = {}
        self.other = ""  # an error of Snakemake itself
        self.stopped = False

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(getattr(record, "event", None), "value", None)
        if event == "job_info":
            self.started[record.jobid] = record
        elif event == "job_finished":
            self.failed.pop(record.job_id, None)
        elif event == "group_error":
            self.groups |= {job["jobid"]: record.getMessage() for job in record.job_error_info}
        elif event == "job_error":
            self.failed[record.jobid] = self._failure(record)
        elif event == "error":
            self.other = record.getMessage()
        elif event is None and record.getMessage().startswith(STOPPED):
            self.stopped = True

    def _failure(self, record: logging.LogRecord) -> Failure:
        start = self.started.get(record.jobid)
        resources = dict(start.resources.items()) if start else {}
        asked = ", ".join(f"{name}={resources[name]}" for name in ASKED if name in resources)
        log = next(iter(record.log), "")
        return Failure(
            rule=record.rule_name,
            wildcards=", ".join(v for k, v in start.wildcards.items() if v and k != "suite") if start else "",
            said=record.rule_msg or self.groups.get(record.jobid, ""),
            asked=asked or "its resources",
            log=log,
            own=last_error(Path(log), start.created if start else 0.0) if log else "",
        )

    def lines(self) -> list[str]:
        """What went wrong and what to do: a line for every kind of failure, with the log of the first such job."""
        kinds: dict[tuple[str, str], list[Failure]] = {}
        for failure in self.failed.values():
            by_hand = failure.own.startswith(BY_HAND) or (self.stopped and not failure.own)
            if not by_hand or self._advised(failure):
                kinds.setdefault((failure.rule, self._reason(failure)), []).append(failure)
        if not kinds and (self.failed or self.stopped or not self.other):
            return [f"Stopped before the end. To go on, {AGAIN}"]
        lines = []
        for (rule, reason), (first, *others) in kinds.items():
            more = f", and {len(others)} more" if others else ""
            lines += [f"{rule}: {reason}", *([f"    job: {first.wildcards}{more}"] if first.wildcards or more else [])]
            lines += [f"    log: {first.log}"] if first.log else []
        return ["WHAT WENT WRONG", *(lines or [self.other]), f"Once that is mended, {AGAIN}"]

    def _advised(self, failure: Failure) -> str | None:
        """What a profile advises where a scheduler has said this; if a job of a group says more itself, that counts."""
        for entry in self.known:
            if failure.said and re.search(entry["said"], failure.said):
                if failure.own and failure.said in self.groups.values():
                    return None
                return entry["advice"].strip().format(rule=failure.rule, asked=failure.asked)
        return None

    def _reason(self, failure: Failure) -> str:
        if advised := self._advised(failure):
            return advised
        if failure.own:
            return failure.own
        if failure.said:
            return failure.said.splitlines()[0]
        return (
            "it ended without an error message. The system may have killed it, mostly because memory ran out: "
            "let fewer jobs run at once (--cores), or close other programs."
        )


def last_error(log: Path, since: float) -> str:
    """What a job's log says of the error that stopped it; nothing if it says none, or was not written `since` then."""
    if not log.is_file() or log.stat().st_mtime < since:
        return ""
    text = log.read_text(encoding="utf-8", errors="replace")
    starts = list(RECORD.finditer(text))
    for record, end in reversed(list(zip(starts, [*(r.start() for r in starts[1:]), len(text)], strict=True))):
        said = text[record.end() : end].strip()
        if record["level"] == "ERROR":
            return exception(said) if said.startswith(STOPPED_BY) else said
        if record["level"] == "WARNING" and said.startswith(BY_HAND):
            return said
    return ""


def exception(said: str) -> str:
    """The line of a traceback that tells the error: the first after the frames, as a message can have many lines."""
    last = re.split(r"^Traceback \(most recent call last\):\n", said.removeprefix(STOPPED_BY), flags=re.M)[-1]
    line = next((line for line in last.splitlines() if line and not line.startswith(" ")), "no message")
    if line.startswith(BY_HAND):
        return line
    return f"it stopped with an error that nobody expected ({line}). If that does not help you, report it with the log."


def say_last(lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Print after everything that Snakemake still has to say."""
    if text := "\n".join(lines):
        atexit.register(lambda: print(f"\n{printable(text)}", file=stream or sys.stderr, flush=True))
