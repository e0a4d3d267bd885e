"""Files that are complete or absent, and tensors and YAML that are data, never code, and no larger than they look."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import re
import shutil
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gnorm.errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT)
DEEPEST = 100  # levels of YAML
WRITTEN_OUT = 5_000_000  # characters of YAML with each alias replaced by what it stands for
A_DAY = 24 * 3600
LIMIT = 4 * 2**30  # bytes of a stranger's file at most, once it is unpacked
WHOLE = 4 * LIMIT  # bytes of all files of an archive or a folder
ROOM = 2**31  # bytes that a library may take for a stranger's file, beside a few times its size


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that is renamed to `path` if the block succeeds.

    The block may make a file or a directory there. The temporary name keeps the suffix,
    because writers choose their format by it. The content is on the disk before it is renamed, so a
    power cut leaves no empty file under the final name. The user sees one line about a full disk.
    """
    path, scratch = Path(path), None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        own = "-".join(map(str, process()))
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.{own}-", dir=path.parent))
        yield scratch / path.name
        _to_disk(scratch / path.name)
        if (scratch / path.name).is_dir() and path.is_dir():  # moved whole: never a half-deleted folder
            os.rename(path, scratch / f"{path.name}.old")
        os.replace(scratch / path.name, path)
        _sync(path.parent)
    except UserError:
        raise
    except Exception as error:
        if _disk_is_full(error, scratch):
            raise UserError(f"the disk is full: {path} was not written; make room and start again") from error
        raise
    finally:
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)


def process() -> tuple[str, int, int]:
    """Identify this process among all that share the disk: where its number counts, its number, when it began.

    A number counts within a host's boot and PID namespace: containers have their own numbers, and hosts or containers
    can have the same name. When it began is in ticks since the boot.
    """
    where = [os.uname().nodename]
    with suppress(OSError):  # not every system has these
        where.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with suppress(OSError):
        where.append(os.readlink("/proc/self/ns/pid"))
    return f"{zlib.crc32(' '.join(where).encode()):08x}", os.getpid(), _began(os.getpid())


def is_running(pid: int, began: int) -> bool:
    """Whether a process that counts where this one does still runs; another may have got its number since."""
    return began == _began(pid) != 0


def group_is_running(group: int) -> bool:
    """Whether any process of a group still runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's
        return True
    return any(_stat(entry.name)[0] == group for entry in Path("/proc").iterdir() if entry.name.isdecimal())


def _began(pid: int) -> int:
    return _stat(pid)[1]


def _stat(pid: int | str) -> tuple[int, int]:
    """A process's group, and the ticks from the host's start to its own; zeros if it has ended.

    One that has ended and only waits to be noticed counts as ended too.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, 0
    return (0, 0) if state in "ZX" else (int(fields[1]), int(fields[18]))


def _remove_leftovers(path: Path) -> None:
    """Remove temporary folders of this file whose writers were killed: here, or a day ago elsewhere."""
    made = re.compile(rf"\.{re.escape(path.name)}\.([0-9a-f]{{8}})-(\d+)-(\d+)-[a-z0-9_]{{8}}")  # as mkdtemp does
    with os.scandir(path.parent) as entries:
        for entry, name in [(entry, match) for entry in entries if (match := made.fullmatch(entry.name))]:
            with suppress(FileNotFoundError):  # its writer has just removed it
                here = name[1] == process()[0]
                old = time.time() - entry.stat().st_mtime > A_DAY
                if not is_running(int(name[2]), int(name[3])) if here else old:
                    shutil.rmtree(entry.path, ignore_errors=True)


def _to_disk(written: Path) -> None:
    for folder, _, names in os.walk(written) if written.is_dir() else ():
        for name in names:
            _sync(Path(folder, name))
        _sync(Path(folder))
    if written.is_file():
        _sync(written)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _disk_is_full(error: Exception, scratch: Path | None) -> bool:
    """Whether the disk is full. Writers in other languages hide why they failed, so this tries to write."""
    if isinstance(error, OSError) and error.errno in FULL:
        return True
    try:
        if scratch:
            (scratch / "room").write_bytes(bytes(2**16))
            _sync(scratch / "room")
    except OSError as probed:
        return probed.errno in FULL
    return False


def write_text(path: str | Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:  # of JSON or UTF-8
        raise UserError(f"{path} is damaged or cut short ({error})") from error
    except RecursionError as error:
        raise UserError(f"{path} cannot be read: its lists and objects lie too deep in each other") from error


def check_yaml(text: str) -> None:
    """Raise a `UserError` about YAML that nests too deeply, or that aliases make far larger than it is written.

    Looks at events alone: what builds a value from them crashes or never ends.
    """
    import yaml

    named: dict[str, int] = {}
    sizes, names = [0], [None]  # of the collections that are open
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            sizes.append(10)
            names.append(event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            sizes[-1] += named.get(event.anchor, 0)  # of one that holds itself the caller finds out
        elif isinstance(event, yaml.ScalarEvent):
            sizes[-1] += (size := 10 + len(event.value))
            named[event.anchor] = size
        elif isinstance(event, yaml.CollectionEndEvent):
            named[names.pop()] = (size := sizes.pop())
            sizes[-1] += size
        if len(sizes) > DEEPEST:
            raise UserError(f"its lists and mappings lie more than {DEEPEST} deep in each other")
        if sizes[-1] > WRITTEN_OUT:
            raise UserError(f"it would be more than {WRITTEN_OUT:,} characters long without its aliases (*name)")


def check_inside(path: str | Path, folder: str | Path) -> None:
    """Raise a `UserError` about a link that leads out of a folder: what it leads to may be private."""
    target = os.path.realpath(path)
    if not Path(target).is_relative_to(os.path.realpath(folder)):
        raise UserError(f"{path} leads out of {folder}, to {target}: put a copy in its place, or remove it")


@contextmanager
def within_memory(more: int) -> Iterator[None]:
    """Let a block take at most `more` bytes of memory: what asks for more fails by itself, and not the machine.

    Linux counts memory that can be written to. Elsewhere the block runs as ever.
    """
    import resource

    try:
        taken = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    except OSError:
        taken = 0
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if not taken or (before != resource.RLIM_INFINITY and before < taken + more):
        yield
        return
    resource.setrlimit(resource.RLIMIT_DATA, (taken + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def save_tensors(path: str | Path, value: Any) -> None:
    import torch

    with atomic(path) as temporary:
        torch.save(value, temporary)


def load_tensors(path: str | Path) -> Any:
    """Load what `save_tensors` wrote; refuses damaged files, anything that would run code, and tensors that are none.

    A tensor may say any shape, and take the same few numbers again and again to fill it.
    """
    import torch

    try:
        _check_archive(path)
        with within_memory(ROOM + 4 * os.path.getsize(path)):
            value = torch.load(path, map_location="cpu", weights_only=True)
    except (UserError, FileNotFoundError):
        raise
    except Exception as error:  # the type of error depends on the damage
        raise UserError(refusal(path, error, "where you trust it, save its tensors alone with torch.save")) from error
    waiting, seen = [value], {}
    while waiting:
        part = waiting.pop()
        if id(part) in seen:  # a list may hold itself
            continue
        seen[id(part)] = part
        if isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set):
            waiting += part
        elif isinstance(part, torch.Tensor):
            whole = part.layout == torch.strided and part.device.type == "cpu" and not part.is_quantized
            if not whole or part.numel() * part.element_size() > part.untyped_storage().nbytes():
                raise UserError(f"{path} is refused: it has a tensor of {tuple(part.shape)} without as many numbers")
    return value


def _check_archive(path: str | Path) -> None:
    """Refuse a file that torch.save has not written, or that has changed: torch does not compare the checksums."""
    if not zipfile.is_zipfile(path):
        Path(path).stat()  # it may be missing
        raise UserError(f"{path} is not a readable tensor file (torch.save writes zip archives)")
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise UserError(f"{path} is refused: {info.filename} in it is compressed, as torch.save never does")
        if damaged := archive.testzip():
            raise UserError(f"{path} is damaged: the checksum of {damaged} is wrong")


def refusal(path: str | Path, error: Exception, remedy: str) -> str:
    """Say why torch has not read a file. Its own words advise to run what is in it."""
    said = str(error)
    if asked := re.search(r"GLOBAL ([\w.]+)", said):
        return f"{path} is refused: it is a pickle that asks for {asked[1]}, which reading it would run; {remedy}"
    if isinstance(error, pickle.UnpicklingError):
        return f"{path} is refused: it is a pickle of other things than tensors; {remedy}"
    return f"{path} is not a readable tensor file ({(said or type(error).__name__).splitlines()[0]})"


def digest(path: str | Path) -> str:
    """Compute the digest of a file's content, or of all files in a folder and their names."""
    path, total = Path(path), hashlib.sha256()
    # Snakemake puts a file of its own into a folder.
    inside = sorted(p for p in path.rglob("*") if p.is_file() and p.name != ".snakemake_timestamp")
    for file in inside if path.is_dir() else [path]:
        with open(file, "rb") as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
        if not path.is_dir():
            return content
        total.update(f"{file.relative_to(path).as_posix()} {content}\n".encode())
    return total.hexdigest()
