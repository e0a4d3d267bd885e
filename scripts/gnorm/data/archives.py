"""Archives of the package index: fetched with pip's own finder, checked, and read member by member.

`pip download` asks an sdist for its metadata, which runs the package's own setup code. So only pip's
finder and its session are used here: index, proxies, certificates and `--find-links` follow pip's
configuration, and no code of the package is run, built or installed.
"""

from __future__ import annotations

import difflib
import hashlib
import logging
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from gnorm.errors import UserError
from gnorm.files import atomic
from gnorm.logs import log

LIMIT = 4 * 2**30  # bytes of a member at most
CHUNK = 2**20
KINDS = {"wheel": "--only-binary=:all:", "sdist": "--no-binary=:all:"}


def fetch(*, package: str, version: str, kind: str, sha256: str, mirror: str | None, path: str | Path) -> None:
    """Fetch the wheel or sdist of a package's version into `path`, if it is the one with this checksum.

    `mirror` is a folder to look into instead of the index.
    """
    if mirror and not Path(mirror).expanduser().is_dir():
        raise UserError(f"package_mirror: there is no folder {mirror}; it must exist and hold {package} {version}")
    what = f"the package {package} {version} ({kind})"
    with _pip(kind, mirror) as (finder, session), atomic(path) as temporary:
        link = _find(finder, package, version, what, mirror)
        log.info("downloading %s", link.filename)
        digest = hashlib.sha256()
        try:
            with session.get(link.url_without_fragment, stream=True, headers={"Accept-Encoding": "identity"}) as answer:
                answer.raise_for_status()
                with open(temporary, "wb") as target:
                    for chunk in answer.iter_content(CHUNK):
                        digest.update(chunk)
                        target.write(chunk)
        except OSError as error:  # of the session or of the file
            message = f"{what} cannot be downloaded ({type(error).__name__})"
            raise UserError(f"{message}: run again once the package index can be reached") from error
        if digest.hexdigest() != sha256:
            raise UserError(
                f"{what}: {link.filename} has the sha256 {digest.hexdigest()}, the suite says {sha256}; "
                "it is not the file the suite was written for and is not used"
            )


def unpack_file(archive: str | Path, inner: str | None, member: str, path: str | Path) -> None:
    """Unpack one file of an archive, or of an archive inside it, into `path`."""
    with _opened(archive, inner) as (sizes, read), atomic(path) as temporary:
        _known(member, sizes, archive)
        with read(member) as source, open(temporary, "wb") as target:
            shutil.copyfileobj(source, target, CHUNK)


def unpack_folder(
    archive: str | Path,
    inner: str | None,
    member: str,
    pick: Callable[[Iterator[str], str], list[str]],
    folder: str | Path,
) -> None:
    """Unpack files of one folder of an archive, chosen by `pick` from their names, into `folder`."""
    member = member.rstrip("/")
    with _opened(archive, inner) as (sizes, read), atomic(folder) as temporary:
        inside = {name.rpartition("/")[2]: name for name in sizes if name.rpartition("/")[0] == member}
        if not inside:
            _known(member, {str(PurePosixPath(name).parent): 0 for name in sizes}, archive)
        temporary.mkdir()
        for name in pick(iter(inside), f"{member} in {Path(archive).name}"):
            _known(inside[name], sizes, archive)
            with read(inside[name]) as source, open(temporary / name, "wb") as target:
                shutil.copyfileobj(source, target, CHUNK)


@contextmanager
def _pip(kind: str, mirror: str | None) -> Iterator[tuple[Any, Any]]:
    """Set up pip's finder and session by its own configuration; its cache in the home folder is not used."""
    from pip._internal.commands import create_command

    where = ["--no-index", "--find-links", str(Path(mirror).expanduser().resolve())] if mirror else []
    command = create_command("download")
    options, _ = command.parse_args(["--no-cache-dir", "--no-input", "--retries=2", KINDS[kind], *where])
    with command.main_context():
        session = command.get_default_session(options)
        yield command._build_package_finder(options, session, ignore_requires_python=True), session


def _find(finder, package: str, version: str, what: str, mirror: str | None):
    """Find the link to the archive; distinguishes a missing package from an unreachable index."""
    from pip._vendor.packaging.specifiers import SpecifierSet

    with _overheard("pip._internal.index.collector") as messages:
        candidates = finder.find_best_candidate(package, SpecifierSet(f"=={version}"))
    if candidates.best_candidate is not None:
        return candidates.best_candidate.link
    have = ", ".join(dict.fromkeys(str(c.version) for c in candidates.iter_all()))
    if have:
        raise UserError(f"{what} is not there; allowed: {have}. Correct `version:` in the suite")
    if any("Could not fetch" in text and "404" not in text for text in messages):
        raise UserError(
            f"the package index cannot be reached for {what}: run again once it can, "
            "or put the file into a folder and add package_mirror=DIR to --config"
        )
    where = f"the folder {mirror}" if mirror else "the package index"
    raise UserError(f"{where} has no {what.removeprefix('the ')}: correct `package:` or `kind:` in the suite")


@contextmanager
def _overheard(name: str) -> Iterator[list[str]]:
    """Collect the messages of a logger of pip, which reports failed requests nowhere else."""
    messages: list[str] = []
    logger, handler = logging.getLogger(name), logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    level, passed_on = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = passed_on


@contextmanager
def _opened(archive: str | Path, inner: str | None) -> Iterator[tuple[dict[str, int], Callable[[str], IO[bytes]]]]:
    """Yield the sizes of an archive's regular files by name, and a function that opens one.

    Nothing is written under a name from the archive. Links, devices and folders are not listed.
    """
    with open(archive, "rb") as stream, _members(stream, archive) as (sizes, read):
        if inner is None:
            yield sizes, read
            return
        _known(inner, sizes, archive)
        # Copied out first: an archive is read back and forth, which is slow in a compressed member.
        with read(inner) as compressed, tempfile.TemporaryFile(dir=Path(archive).parent) as unpacked:
            shutil.copyfileobj(compressed, unpacked, CHUNK)
            with _members(unpacked, inner) as members:
                yield members


@contextmanager
def _members(stream: IO[bytes], name: str | Path) -> Iterator[tuple[dict[str, int], Callable[[str], IO[bytes]]]]:
    stream.seek(0)
    if zipfile.is_zipfile(stream):
        with zipfile.ZipFile(stream) as opened:
            infos = [info for info in opened.infolist() if not info.is_dir() and not _is_link(info)]
            yield {info.filename: info.file_size for info in infos}, opened.open
        return
    stream.seek(0)
    try:
        with tarfile.open(fileobj=stream) as opened:
            yield {info.name: info.size for info in opened if info.isreg()}, opened.extractfile
    except tarfile.ReadError as error:
        raise UserError(f"{Path(name).name} is neither a zip nor a tar archive") from error


def _is_link(info: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(info.external_attr >> 16)


def _known(member: str, sizes: dict[str, int], archive: str | Path) -> None:
    if member not in sizes:
        near = difflib.get_close_matches(member, sizes, 1, 0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        have = ", ".join(sorted(sizes)[:12]) + (", ..." if len(sizes) > 12 else "")
        raise UserError(f"{Path(archive).name} has no member {member!r}; {hint}it has {have}")
    if sizes[member] > LIMIT:
        raise UserError(
            f"{Path(archive).name}: {member!r} has {sizes[member]:,} bytes, more than {LIMIT:,} are not read"
        )
