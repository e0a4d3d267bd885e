"""One run of the workflow at a time writes into a suite's results, whatever folder or host it is started from.

Snakemake's own lock lies in the folder that it runs in, and several such folders can share their results. So a run
leaves a file in the results that says who it is, and removes it when it ends. If it was killed, the next one on that
host sees that, unless the host was started anew or one of them is in a container. The jobs of a killed run go on by
themselves; until they have ended too, the results are theirs. Jobs and dry runs need none of this.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

from gnorm import layout
from gnorm.errors import UserError
from gnorm.files import group_is_running, is_running, process, read_json, write_json

WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP)  # as a disk says that gives no second names


def suites_of(paths: Iterable[str]) -> list[str]:
    """The suites into whose results these files go."""
    results = layout.RESULTS.partition("/")[0]
    return sorted({path.split("/")[1] for path in paths if path.startswith(f"{results}/")})


def take(suite: str) -> None:
    """Take a suite's results until this process ends; refuses if another run has them."""
    path = Path(layout.fill(layout.RUNNING, suite=suite))
    where, pid, began = process()
    own = {"where": where, "pid": pid, "began": began, "group": os.getpgid(0)}
    own |= {"host": os.uname().nodename, "folder": os.getcwd()}
    own |= {"user": os.environ.get("USER", os.getuid()), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    whole = path.with_name(f"{path.name}.{where}-{pid}")
    try:
        write_json(whole, own)
        try:
            while not _linked(whole, path):
                _remove_if_dead(path)
        finally:
            whole.unlink()
    except OSError as error:
        raise UserError(
            f"{path} cannot be written or read ({error.strerror}). Give yourself the right to write into the folder "
            f"{path.parent}; if anything else has these names, remove it"
        ) from error
    atexit.register(_give_back, path, own)


def _linked(whole: Path, path: Path) -> bool:
    """Give a file a second name, if nothing has that yet: nobody ever sees it half-written."""
    try:
        try:
            os.link(whole, path)
        except OSError as error:
            if error.errno not in WITHOUT_LINKS:
                raise
            with open(path, "xb") as file:
                file.write(whole.read_bytes())
    except FileExistsError:
        return False
    return True


def is_ours(suite: str) -> bool:
    """Whether this process has taken a suite's results."""
    try:
        holder = read_json(layout.fill(layout.RUNNING, suite=suite))
        return (holder["where"], holder["pid"], holder["began"]) == process()
    except (OSError, UserError, KeyError, TypeError):
        return False


def _remove_if_dead(path: Path) -> None:
    """Remove what a killed run of this host has left; refuses if a run may still go on."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return  # it has just ended
    who, ended = "which says nothing about itself", False
    try:
        other = json.loads(text)
        who = "in {folder} on {host} (process {pid} of {user}, since {since})".format(**other)
        ended = other["where"] == process()[0] and not is_running(other["pid"], other["began"])
        group = other["group"]
        if ended and group != os.getpgid(0) and group_is_running(group):
            ended, who = False, f"{who} that was killed, while its jobs go on (process group {group})"
    except (ValueError, KeyError, TypeError):
        pass
    if not ended:
        raise UserError(
            f"{path.parent} is in use by a run {who}. Wait until that has ended; "
            f"if it does not run any more, remove {path} and start again"
        )
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    os.replace(path, aside)
    if aside.read_bytes() == text:
        aside.unlink()
    else:  # of a third run, which has been quicker
        os.replace(aside, path)


def _give_back(path: Path, own: dict) -> None:
    """Remove the file, but not at the end of a child of this process, nor one of another run."""
    try:
        if os.getpid() == own["pid"] and read_json(path) == own:
            path.unlink()
    except (OSError, UserError):
        return  # somebody has removed or damaged it
