"""Archives of the package index: found by pip's settings, checked, and read member by member.

`pip download` asks an sdist for its metadata, which runs the package's own setup code. So `unearth`, a library made for
that, reads the index, with the settings that pip says it has: indexes, `find-links`, proxy, certificates and trusted
hosts. No code of the package is run, built or installed, and no cache is used.
"""

from __future__ import annotations

import ast
import difflib
import gzip
import hashlib
import logging
import lzma
import os
import re
import shutil
import ssl
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from gnorm.errors import UserError
from gnorm.files import LIMIT, WHOLE, atomic
from gnorm.logs import log

if TYPE_CHECKING:
    from unearth import Link, Package
    from unearth.fetchers import PyPIClient

MEMBERS = 1_000_000  # of an archive at most
NAME = 200  # bytes of a name at most: no file has a longer one
CHUNK = 2**20
DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile),
    *(ValueError, OverflowError, LookupError, struct.error),  # of sizes and names in headers
)
PAUSES = (0.5, 1.0)  # seconds before a failed request is sent again
ANOTHER = {"wheel": "sdist", "sdist": "wheel"}


def fetch(*, package: str, version: str, kind: str, sha256: str, mirror: str | None, path: str | Path) -> None:
    """Fetch the wheel or sdist of a package's version into `path`, if it is the one with this checksum.

    `mirror` is a folder to look into instead of the index.
    """
    import httpx2

    what, where = f"the package {package} {version} ({kind})", f"the folder {mirror}" if mirror else "the package index"
    if mirror and not Path(mirror).expanduser().is_dir():
        raise UserError(f"package_mirror: there is no folder {mirror}; it must exist and hold {package} {version}")
    settings = {} if mirror else pip_settings()
    with _client(settings) as client, atomic(path) as temporary:
        found, failures = _search(client, _places(settings, mirror), package)
        link = _choose(found, failures, what=what, where=where, version=version, kind=kind, sha256=sha256)
        log.info("downloading %s", link.filename)
        try:
            digest = _retried(partial(_download, client, link, temporary))
        except (httpx2.HTTPError, OSError) as error:  # of the connection or of the file
            message = f"{what} cannot be downloaded ({type(error).__name__})"
            raise UserError(f"{message}: run again once the package index can be reached") from error
        if digest != sha256:
            raise UserError(
                f"{what}: {link.filename} has the sha256 {digest}, the suite says {sha256}; "
                "it is not the file the suite was written for and is not used"
            )


def unpack_file(archive: str | Path, inner: str | None, member: str, path: str | Path) -> None:
    """Unpack one file of an archive, or of an archive inside it, into `path`."""
    with _opened(archive, inner) as (sizes, read), atomic(path) as temporary:
        _copy(member, temporary, sizes, read, archive)


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
        places = {name: name.rpartition("/") for name in sizes}
        inside = {own: name for name, (at, _, own) in places.items() if at == member and len(os.fsencode(own)) <= NAME}
        if not inside:
            _known(member, {str(PurePosixPath(name).parent): 0 for name in sizes}, archive)
        temporary.mkdir()
        picked = pick(iter(inside), f"{member} in {Path(archive).name}")
        _check_total(sum(sizes[inside[name]] for name in picked), archive)
        for name in picked:
            _copy(inside[name], temporary / name, sizes, read, archive)


def _copy(
    member: str, path: Path, sizes: dict[str, int], read: Callable[[str], IO[bytes]], archive: str | Path
) -> None:
    """Write a member into the file `path`; one of another size than the archive says is damaged."""
    _known(member, sizes, archive)
    with read(member) as source, open(path, "wb") as target:
        shutil.copyfileobj(source, target, CHUNK)
        if target.tell() != sizes[member]:
            raise EOFError(f"{member} has {target.tell()} bytes, not {sizes[member]}")


def pip_settings() -> dict[str, str]:
    """Ask pip for its settings: files first, then those files' section for downloads, then the environment."""
    listed: dict[str, dict[str, list[str]]] = {"global": {}, "download": {}, ":env:": {}}
    for line in _ask_pip("list").splitlines():
        if (told := re.fullmatch(r"(.+?)\.([^.=]+)=(.*)", line)) and told[1] in listed:
            listed[told[1]].setdefault(told[2], []).append(ast.literal_eval(told[3]))
    found = {}
    for section, values in listed.items():
        for name, given in values.items():  # a name is listed once for each file that sets it
            found[name] = given[0] if len(given) == 1 else _ask_pip("get", f"{section}.{name}").strip()
    return found


def _ask_pip(*arguments: str) -> str:
    command = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "config", *arguments]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        reason = (made.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UserError(f"pip cannot tell its settings, which say where the package index is: {reason}")
    return made.stdout


def _places(settings: dict[str, str], mirror: str | None) -> list[dict[str, list[str]]]:
    """Where to look, as arguments of a finder each."""
    if mirror:
        return [{"find_links": [str(Path(mirror).expanduser().resolve())]}]
    indexes = [settings.get("index-url", "https://pypi.org/simple"), *_listed(settings, "extra-index-url")]
    links = [link if "://" in link else str(Path(link).expanduser()) for link in _listed(settings, "find-links")]
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on", "y", "t"):
        if not links:
            raise UserError("pip's settings forbid the package index (no-index) and name no find-links instead")
        indexes = []
    links = [link for link in links if "://" in link or Path(link).exists()]
    return [{"index_urls": [url]} for url in indexes] + [{"find_links": [link]} for link in links]


def _listed(settings: dict[str, str], name: str) -> list[str]:
    return settings.get(name, "").split()


def _client(settings: dict[str, str]) -> PyPIClient:
    """Set up a client by pip's settings."""
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import PyPIClient

    urls = [settings.get("index-url", ""), *_listed(settings, "extra-index-url")]
    return PyPIClient(
        trusted_hosts=_listed(settings, "trusted-host"),
        verify=_certificates(settings),
        auth=MultiDomainBasicAuth(prompting=False, index_urls=filter(None, urls)),
        proxy=settings.get("proxy"),
        timeout=float(settings.get("timeout") or settings.get("default-timeout") or 15),
        follow_redirects=True,
    )


def _certificates(settings: dict[str, str]) -> ssl.SSLContext | bool:
    """Take the certificates that pip would; True lets the client look for the system's."""
    path = settings.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    own = settings.get("client-cert")
    if not path and not own:
        return True
    try:
        context = ssl.create_default_context(**{"capath" if path and Path(path).is_dir() else "cafile": path})
        if own:
            context.load_cert_chain(own)
    except OSError as error:
        raise UserError(f"pip's certificates cannot be read ({error}): correct `cert` in pip's settings") from error
    return context


def _search(client: PyPIClient, places: list[dict[str, list[str]]], package: str) -> tuple[list[Package], list[str]]:
    """Find every archive of a package, and what went wrong on the way; one bad index hides no other."""
    import httpx2
    from unearth import PackageFinder

    logging.getLogger("unearth").setLevel(logging.ERROR)  # it warns of every page that is not there
    failures, asked = [], []

    def note(answer):  # any refusal would be taken for an empty page
        if answer.status_code >= 500:
            answer.raise_for_status()
        if answer.status_code >= 400 and answer.status_code != 404:
            failures.append(f"HTTP status {answer.status_code}")

    client.event_hooks = {"request": [asked.append], "response": [note]}
    found = []
    for place in places:
        asked.clear()
        # Nothing is installed, so an archive for another Python or machine is as good.
        finder = PackageFinder(session=client, ignore_compatibility=True, **place)
        try:
            found += _retried(lambda finder=finder: list(finder.find_all_packages(package, allow_yanked=True)))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            failures.append(type(error).__name__)
        if not asked and any(url.startswith("http:") for urls in place.values() for url in urls):
            failures.append("it is neither https nor in pip's trusted-host")
    return found, failures


def _choose(
    found: list[Package], failures: list[str], *, what: str, where: str, version: str, kind: str, sha256: str
) -> Link:
    """Take the archive of a version and kind, that with the checksum if the index tells checksums."""
    from packaging.version import InvalidVersion, Version

    try:
        wanted = Version(version)
    except InvalidVersion as error:
        raise UserError(f"{what}: {version!r} is not a version; correct `version:` in the suite") from error
    kept = [one for one in found if one.link.is_wheel == (kind == "wheel")]
    links = [one.link for one in kept if Version(one.version) == wanted]
    if links:
        return next((link for link in links if sha256 in (link.hash_option or {}).get("sha256", ())), links[0])
    if kept:
        have = ", ".join(dict.fromkeys(one.version for one in kept))
        unasked = f" (an index could not be asked: {failures[-1]})" if failures else ""
        raise UserError(f"{what} is not there; allowed: {have}{unasked}. Correct `version:` in the suite")
    if failures:
        raise UserError(
            f"{where} cannot be reached for {what}, {failures[-1]}: run again once it can, "
            "or put the file into a folder and add package_mirror=DIR to --config"
        )
    message = f"{where} has no {what.removeprefix('the ')}"
    if found:
        raise UserError(f"{message}, only {ANOTHER[kind]}s: correct `kind:` in the suite")
    raise UserError(f"{message}: correct `package:` in the suite")


def _download(client: PyPIClient, link: Link, path: Path) -> str:
    """Download a file; returns its sha256."""
    digest = hashlib.sha256()
    with client.get_stream(link.url_without_fragment, headers={"Accept-Encoding": "identity"}) as answer:
        answer.raise_for_status()
        with open(path, "wb") as target:
            for chunk in answer.iter_bytes(CHUNK):
                digest.update(chunk)
                target.write(chunk)
    return digest.hexdigest()


def _retried(attempt: Callable[[], Any]) -> Any:
    """Make an attempt again that failed on the way to a server or inside it."""
    import httpx2

    for pause in PAUSES:
        try:
            return attempt()
        except httpx2.HTTPStatusError as error:
            if error.response.status_code < 500:
                raise
        except httpx2.TransportError:
            pass
        time.sleep(pause)
    return attempt()


@contextmanager
def _opened(archive: str | Path, inner: str | None) -> Iterator[tuple[dict[str, int], Callable[[str], IO[bytes]]]]:
    """Yield the sizes of an archive's regular files by name, and a function that opens one.

    Nothing is written under a name from the archive. Links, devices and folders are not listed.
    """
    with _explained(archive), open(archive, "rb") as stream, _members(stream, archive) as (sizes, read):
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
def _explained(archive: str | Path) -> Iterator[None]:
    """Turn what an encrypted, damaged or cut archive raises into one line."""
    try:
        yield
    except DAMAGED as error:
        raise UserError(f"{Path(archive).name} is damaged or cut short ({error}): take another copy") from error
    except (RuntimeError, NotImplementedError) as error:  # of a member of a zip archive
        raise UserError(f"{Path(archive).name} cannot be unpacked ({error}): take one without password") from error


@contextmanager
def _members(stream: IO[bytes], name: str | Path) -> Iterator[tuple[dict[str, int], Callable[[str], IO[bytes]]]]:
    stream.seek(0)
    if zipfile.is_zipfile(stream):
        with zipfile.ZipFile(stream) as opened:
            listed = opened.infolist()
            _check_total(0, name, len(listed))
            found = {info.filename: info for info in listed if not info.is_dir() and not _is_link(info)}
            yield {each: info.file_size for each, info in found.items()}, lambda each: opened.open(found[each])
        return
    stream.seek(0)
    try:
        with tarfile.open(fileobj=stream) as opened:
            found = {}
            for count, info in enumerate(opened):
                if info.size < 0:
                    raise tarfile.ReadError(f"{info.name} has {info.size} bytes")
                _check_total(opened.offset, name, count)
                if info.isreg():
                    found[info.name] = info
            while opened.fileobj.read(CHUNK):  # a compressed file's checksum stands at its end
                _check_total(opened.fileobj.tell(), name)
            yield {each: info.size for each, info in found.items()}, lambda each: opened.extractfile(found[each])
    except tarfile.ReadError as error:
        raise UserError(f"{Path(name).name} is neither a zip nor a tar archive") from error


def _check_total(size: int, archive: str | Path, members: int = 0) -> None:
    """Refuse what a small archive may unpack to: its parts may lie over each other, or be zeros without end."""
    if size > WHOLE or members > MEMBERS:
        more = f"{WHOLE:,} bytes" if size > WHOLE else f"{MEMBERS:,} members"
        raise UserError(f"{Path(archive).name} holds more than {more}: it is not unpacked")


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
