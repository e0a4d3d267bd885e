"""Archives that strangers made: only the files that were asked for are unpacked, to where we say, and in bounds."""

import io
import shutil
import struct
import tarfile
import time
import zipfile
import zlib

import pytest

from gnorm.data import archives
from gnorm.data.saved import model_files
from gnorm.errors import UserError

MODEL = {"m/config.json": b"{}", "m/tokenizer.json": b"{}", "m/model.safetensors": b"weights"}


def zipped(files, compression=zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, content in files.items() if isinstance(files, dict) else files:
            archive.writestr(name, content)
    return made.getvalue()


def tarred(*members: tuple, mode="w") -> bytes:
    """Members are (name, content, changes of its header)."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode, format=tarfile.PAX_FORMAT) as archive:
        for name, content, changes in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in changes.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


@pytest.fixture
def pack(tmp_path):
    """An archive in a file; beside it lies `out`, where things are unpacked to."""

    def write(content, name="evil.whl"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


def unpack(path, member):
    archives.unpack_file(path, None, member, path.parent / "out/got")
    return path.parent / "out/got"


def refused(path, message, member="a", folder=None):
    with pytest.raises(UserError, match=message) as caught:
        if folder:
            archives.unpack_folder(path, None, folder, model_files, path.parent / "out/model")
        else:
            unpack(path, member)
    assert "\n" not in str(caught.value) and path.name in str(caught.value)
    assert not (path.parent / "out").exists() or not list((path.parent / "out").iterdir())


SLIPS = ("../slipped", "/slipped", "m/../../slipped", "..\\slipped", "C:\\slipped", "m/..", "./../slipped")


@pytest.mark.stranger(
    "names in an archive are absolute or have `..` in them, for it to be unpacked elsewhere",
    "nothing is ever written under an archive's own names",
)
def test_names_that_slip_out(pack, tmp_path, record_property):
    evil = dict.fromkeys(SLIPS, b"slipped")
    for content in (zipped(MODEL | evil), tarred(*((n, c, {}) for n, c in (MODEL | evil).items()), mode="w:gz")):
        path = pack(content)
        archives.unpack_folder(path, None, "m", model_files, tmp_path / "out/model")
        assert {each.name for each in (tmp_path / "out/model").iterdir()} == {name[2:] for name in MODEL}
        assert unpack(path, "../slipped").read_bytes() == b"slipped"  # a name like any other
        shutil.rmtree(tmp_path / "out")
        refused(path, "has no member 'slipped'", "slipped")
    assert not list(tmp_path.rglob("*slipped*")) and not list(tmp_path.parent.glob("slipped"))
    record_property("tried", 2 * len(SLIPS))


KINDS = {
    "a link out": {"type": tarfile.SYMTYPE, "linkname": "../secret"},
    "a hard link": {"type": tarfile.LNKTYPE, "linkname": "/etc/hostname"},
    "a device": {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5},
    "a disk": {"type": tarfile.BLKTYPE},
    "a pipe": {"type": tarfile.FIFOTYPE},
    "a folder": {"type": tarfile.DIRTYPE},
}


@pytest.mark.stranger(
    "a member is a link, a hard link, a device, a pipe or a folder, or hides behind a file of the same name",
    "it does not count as a member; the file of that name is read",
)
def test_members_that_are_no_files(pack, tmp_path, record_property):
    (tmp_path / "secret").write_text("secret")
    for changes in KINDS.values():
        refused(pack(tarred(("a", b"", changes), ("b", b"x", {}))), "has no member 'a'; it has b")
        path = pack(tarred(("a", b"the file", {}), ("a", b"", changes)))
        assert unpack(path, "a").read_bytes() == b"the file"
        (tmp_path / "out/got").unlink()
    link = zipfile.ZipInfo("a")
    link.external_attr = 0o120777 << 16
    refused(pack(zipped([(link, "../secret")])), "has no member 'a'")
    record_property("tried", 2 * len(KINDS) + 1)


def lying(content: bytes, size: int, crc: int | None = None) -> bytes:
    """A zip archive of one member whose headers say another unpacked size, or another checksum."""
    at = content.index(b"PK\x01\x02")
    made = bytearray(content)
    for start in (14, at + 16):
        if crc is not None:
            made[start : start + 4] = struct.pack("<I", crc)
        made[start + 8 : start + 12] = struct.pack("<I", size)
    return bytes(made)


@pytest.mark.stranger(
    "a member has another size or checksum than the archive says", "refused as damaged; nothing half is left"
)
def test_lying_sizes_and_checksums(pack, record_property):
    zeros = bytes(10**6)
    deflated = zipped({"a": zeros}, zipfile.ZIP_DEFLATED)
    refused(pack(lying(deflated, 10)), "is damaged or cut short")
    refused(pack(lying(deflated, 10**9)), "is damaged or cut short")
    refused(pack(lying(zipped({"a": b"12345"}), 5, zlib.crc32(b"54321"))), "is damaged or cut short")
    for pax in ({"size": "-1024"}, {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9"}):
        refused(pack(tarred(("a", b"1234", {"pax_headers": pax}), ("b", b"x", {}))), "is neither a zip|is damaged")
    refused(pack(tarred(("a", b"1234", {}))[:700]), "is damaged or cut short|is neither a zip")
    record_property("tried", 6)


@pytest.mark.stranger(
    "a small archive unpacks to terabytes: zeros, members that overlap, a million members, an archive in an archive",
    "refused by its own sizes, or once it exceeds 16 GiB (4 GiB a file); no time is spent on it",
)
def test_bombs(pack, tmp_path, monkeypatch, record_property):
    began = time.monotonic()
    refused(pack(tarred(("a", b"x", {"pax_headers": {"size": str(2**70)}}))), "holds more than 17,179,869,184 bytes")
    monkeypatch.setattr(archives, "LIMIT", 10**5)
    monkeypatch.setattr(archives, "WHOLE", 4 * 10**5)
    zeros = bytes(10**6)
    refused(pack(lying(zipped({"a": zeros}, zipfile.ZIP_DEFLATED), 10**9)), "'a' has 1,000,000,000 bytes, more than")
    for mode in ("w:gz", "w:bz2", "w:xz"):
        path = pack(tarred(("a", b"x", {}), ("b", zeros, {}), mode=mode))
        assert path.stat().st_size < 2000
        refused(path, "holds more than 400,000 bytes: it is not unpacked")
    padded = io.BytesIO()
    with tarfile.open(fileobj=padded, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("a"))
        archive.fileobj.write(bytes(10**6))  # behind the last member
    refused(pack(padded.getvalue()), "holds more than 400,000 bytes")
    parts = {f"m/model-{i}.safetensors": bytes(90_000) for i in range(5)}
    path = pack(zipped(MODEL | parts, zipfile.ZIP_DEFLATED))
    refused(path, "holds more than 400,000 bytes", folder="m")
    monkeypatch.setattr(archives, "MEMBERS", 100)
    for content in (
        zipped({str(i): b"" for i in range(101)}),
        tarred(*((str(i), b"", {}) for i in range(102))),
    ):
        refused(pack(content), "holds more than 100 members")
    inner = zipped({"a": zeros}, zipfile.ZIP_DEFLATED)
    path = pack(zipped({"inner.zip": inner}))
    with pytest.raises(UserError, match="'a' has 1,000,000 bytes, more than 100,000 are not read"):
        archives.unpack_file(path, "inner.zip", "a", tmp_path / "out/got")
    assert time.monotonic() - began < 20
    record_property("tried", 10)


@pytest.mark.stranger("a member's name is longer than any file's", "it does not count as a member of its folder")
def test_long_names(pack, tmp_path):
    path = pack(zipped(MODEL | {f"m/{'x' * 5000}.json": b"{}"}))
    archives.unpack_folder(path, None, "m", model_files, tmp_path / "out/model")
    assert {each.name for each in (tmp_path / "out/model").iterdir()} == {name[2:] for name in MODEL}
