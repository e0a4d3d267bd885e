"""Archives of the package index: found by pip's settings, checked, and read without running anything in them."""

import base64
import hashlib
import http.server
import io
import os
import tarfile
import threading
import zipfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from support import copy_workflow, snakemake

from gnorm.data import archives
from gnorm.errors import UserError
from gnorm.settings import suites as settings

MARK = "setup code was run"
SETUP = f"open({MARK!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='demo-corpus', version='1.2')\n"
ROWS = '1\t2.5\tgood "quoted\n2\t-1.5\tbad\n3\t0.1\tneither\n4\t0.8\tjust good\n5\t-3\tbad\n'
CSV = "text,score\ngood,1\nbad,-1\n"


def tar(files: dict[str, bytes], mode: str = "w:gz", links: dict[str, str] | None = None) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return made.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


SDIST = tar(
    {
        "demo-corpus-1.2/setup.py": SETUP.encode(),
        "demo-corpus-1.2/PKG-INFO": b"Metadata-Version: 2.1\nName: demo-corpus\nVersion: 1.2\n",
        "demo-corpus-1.2/data/inner.tar.gz": tar({"folder/rows.txt": ROWS.encode()}),
        "demo-corpus-1.2/data/rows.csv": CSV.encode(),
    }
)
WHEEL = zipped(
    {
        "demo_corpus/__init__.py": b"raise SystemExit('the package was imported')",
        "demo_corpus/model/config.json": b"{}",
        "demo_corpus/model/model.safetensors": b"weights",
        "demo_corpus/model/tokenizer.json": b"{}",
        "demo_corpus/model/run.py": b"raise SystemExit('code was taken')",
        "demo_corpus-1.2.dist-info/METADATA": b"Metadata-Version: 2.1\nName: demo-corpus\nVersion: 1.2\n",
        "demo_corpus-1.2.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "demo_corpus-1.2.dist-info/RECORD": b"",
    }
)
FILES = {"demo-corpus-1.2.tar.gz": SDIST, "demo_corpus-1.2-py3-none-any.whl": WHEEL}
SHA = {kind: hashlib.sha256(made).hexdigest() for kind, made in (("sdist", SDIST), ("wheel", WHEEL))}


@pytest.fixture
def mirror(tmp_path) -> Path:
    folder = tmp_path / "mirror"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def index(mirror, monkeypatch):
    """A package index on this machine that pip is set up for."""
    folder = mirror.parent / "index" / "simple" / "demo-corpus"
    folder.mkdir(parents=True)
    links = "".join(f'<a href="/files/{name}">{name}</a>' for name in FILES)
    (folder / "index.html").write_text(f"<!doctype html><html><body>{links}</body></html>")
    mirror.rename(mirror.parent / "index" / "files")

    served = SimpleNamespace(refuse=[], asked=[])  # statuses of the next answers

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            served.asked.append((self.path, self.headers.get("Authorization")))
            if served.refuse:
                self.send_error(served.refuse.pop(0))
            else:
                super().do_GET()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(mirror.parent / "index")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    served.url = f"http://127.0.0.1:{server.server_port}/simple"
    use_index(monkeypatch, served.url)
    yield served
    server.shutdown()
    server.server_close()


def use_index(monkeypatch, url: str) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def settings_file(monkeypatch, path: Path, **settings) -> None:
    """Let pip read its settings from a file alone."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    lines = (f"{name.replace('_', '-')} = {value}" for name, value in settings.items())
    path.write_text("\n".join(["[global]", "index-url = http://127.0.0.1:9/of-all-commands", "[download]", *lines]))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(path))


def fetch(package, version, kind, sha256, mirror, path) -> None:
    archives.fetch(package=package, version=version, kind=kind, sha256=sha256, mirror=mirror, path=path)


def one_line(caught) -> str:
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_an_archive_of_a_folder(kind, mirror, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fetch("demo-corpus", "1.2", kind, SHA[kind], str(mirror), tmp_path / "got")
    assert hashlib.sha256((tmp_path / "got").read_bytes()).hexdigest() == SHA[kind]
    assert not list(tmp_path.rglob(MARK))  # `pip download` would have run the setup code
    assert {p.name for p in tmp_path.iterdir()} == {"mirror", "got"}


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_an_archive_of_an_index(kind, index, tmp_path):
    fetch("Demo_Corpus", "1.2", kind, SHA[kind], None, tmp_path / "got")
    assert hashlib.sha256((tmp_path / "got").read_bytes()).hexdigest() == SHA[kind]


def test_what_an_index_does_not_have(index, tmp_path):
    with pytest.raises(UserError) as caught:
        fetch("no-such-corpus", "1.2", "sdist", SHA["sdist"], None, tmp_path / "got")
    assert "the package index has no package no-such-corpus 1.2 (sdist): correct `package:`" in one_line(caught)
    with pytest.raises(UserError) as caught:
        fetch("demo-corpus", "1.3", "sdist", SHA["sdist"], None, tmp_path / "got")
    assert "demo-corpus 1.3 (sdist) is not there; allowed: 1.2" in one_line(caught)
    assert not (tmp_path / "got").exists()


def test_an_index_out_of_reach(tmp_path, monkeypatch):
    use_index(monkeypatch, "http://127.0.0.1:9/simple")
    with pytest.raises(UserError) as caught:
        fetch("demo-corpus", "1.2", "sdist", SHA["sdist"], None, tmp_path / "got")
    assert "the package index cannot be reached for the package demo-corpus 1.2 (sdist)" in one_line(caught)
    assert "package_mirror=DIR" in str(caught.value)

    assert "ConnectError" in str(caught.value)
    use_index(monkeypatch, "http://index.invalid/simple")
    with pytest.raises(UserError, match=r"\(sdist\), it is neither https nor in pip's trusted-host: run again"):
        fetch("demo-corpus", "1.2", "sdist", SHA["sdist"], None, tmp_path / "got")


def test_the_settings_are_those_pip_has(index, tmp_path, monkeypatch):
    """By their file, by the environment, which is stronger, and by links of pages or folders."""
    got, folder = tmp_path / "got", tmp_path / "index/files"
    settings_file(monkeypatch, tmp_path / "pip.conf", index_url=index.url)
    fetch("demo-corpus", "1.2", "sdist", SHA["sdist"], None, got)
    settings_file(monkeypatch, tmp_path / "pip.conf", index_url="http://127.0.0.1:9/simple", trusted_host="a\n  b:1")
    assert archives.pip_settings()["trusted-host"].split() == ["a", "b:1"]
    with pytest.raises(UserError, match="cannot be reached"):
        fetch("demo-corpus", "1.2", "sdist", SHA["sdist"], None, got)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", index.url)
    fetch("demo-corpus", "1.2", "sdist", SHA["sdist"], None, got)  # one that is out of reach hides no other
    with pytest.raises(UserError, match=r"allowed: 1.2 \(an index could not be asked: ConnectError\). Correct"):
        fetch("demo-corpus", "1.3", "sdist", SHA["sdist"], None, got)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(UserError, match=r"pip's settings forbid the package index \(no-index\)"):
        fetch("demo-corpus", "1.2", "sdist", SHA["sdist"], None, got)
    for links in (f"{tmp_path}/none {folder}", index.url + "/demo-corpus/"):
        monkeypatch.setenv("PIP_FIND_LINKS", links)
        fetch("demo-corpus", "1.2", "wheel", SHA["wheel"], None, got)
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "none.pem"))
    with pytest.raises(UserError, match="pip's certificates cannot be read .*: correct `cert` in pip's settings"):
        fetch("demo-corpus", "1.2", "wheel", SHA["wheel"], None, got)
    (tmp_path / "pip.conf").write_text("index-url without a section")
    with pytest.raises(UserError, match="pip cannot tell its settings, which say where the package index is"):
        fetch("demo-corpus", "1.2", "wheel", SHA["wheel"], None, got)


def test_an_index_that_refuses(index, tmp_path, monkeypatch):
    """A fault of the server is tried again, a refusal is said, and a name and password go where they belong."""
    wanted = ("demo-corpus", "1.2", "sdist", SHA["sdist"], None, tmp_path / "got")
    index.refuse = [503]
    fetch(*wanted)
    assert [path for path, _ in index.asked] == 2 * ["/simple/demo-corpus/"] + ["/files/demo-corpus-1.2.tar.gz"]
    for refused, said in (([500] * 3, "HTTPStatusError"), ([401], "HTTP status 401"), ([403], "HTTP status 403")):
        index.refuse = list(refused)
        with pytest.raises(UserError) as caught:
            fetch(*wanted)
        assert f"the package index cannot be reached for the package demo-corpus 1.2 (sdist), {said}" in one_line(
            caught
        )
    index.asked.clear()
    monkeypatch.setenv("PIP_INDEX_URL", index.url.replace("//", "//me:secret@"))
    fetch(*wanted)
    basic = "Basic " + base64.b64encode(b"me:secret").decode()
    assert {given for _, given in index.asked} == {basic}
    (tmp_path / "index/files/demo-corpus-1.2.tar.gz").unlink()
    with pytest.raises(UserError) as caught:
        fetch(*wanted)
    assert "demo-corpus 1.2 (sdist) cannot be downloaded (HTTPStatusError): run again once" in one_line(caught)
    assert "secret" not in one_line(caught)


def test_a_wrong_kind_or_version_is_told_from_a_missing_package(index, tmp_path):
    (tmp_path / "index/simple/demo-corpus/index.html").write_text('<a href="/files/demo-corpus-1.2.tar.gz">x</a>')
    with pytest.raises(UserError) as caught:
        fetch("demo-corpus", "1.2", "wheel", SHA["wheel"], None, tmp_path / "got")
    assert "has no package demo-corpus 1.2 (wheel), only sdists: correct `kind:` in the suite" in one_line(caught)
    with pytest.raises(UserError, match="'one' is not a version; correct `version:` in the suite"):
        fetch("demo-corpus", "one", "sdist", SHA["sdist"], None, tmp_path / "got")


def test_of_several_archives_that_with_the_checksum_is_taken(index, tmp_path):
    """Also one for another machine or Python: nothing is installed."""
    other = "demo_corpus-1.2-cp27-cp27m-win32.whl"
    (tmp_path / "index/files" / other).write_bytes(b"other")
    sha = hashlib.sha256(b"other").hexdigest()
    links = "".join(
        f'<a href="/files/{name}#sha256={given}" data-requires-python="&lt;3">x</a>'
        for name, given in (("demo_corpus-1.2-py3-none-any.whl", SHA["wheel"]), (other, sha))
    )
    (tmp_path / "index/simple/demo-corpus/index.html").write_text(links)
    for wanted in (sha, SHA["wheel"]):
        fetch("demo-corpus", "1.2", "wheel", wanted, None, tmp_path / "got")
        assert hashlib.sha256((tmp_path / "got").read_bytes()).hexdigest() == wanted


def test_a_wrong_checksum_leaves_nothing(mirror, tmp_path):
    with pytest.raises(UserError) as caught:
        fetch("demo-corpus", "1.2", "sdist", "0" * 64, str(mirror), tmp_path / "got")
    said = one_line(caught)
    assert SHA["sdist"] in said and "0" * 64 in said and "demo-corpus-1.2.tar.gz" in said
    assert {p.name for p in tmp_path.iterdir()} == {"mirror"}


def test_a_mirror_that_does_not_exist_or_lacks_the_package(mirror, tmp_path):
    with pytest.raises(UserError, match="package_mirror: there is no folder"):
        fetch("demo-corpus", "1.2", "sdist", SHA["sdist"], str(tmp_path / "none"), tmp_path / "got")
    with pytest.raises(UserError, match="the folder .* has no package other 1.2"):
        fetch("other", "1.2", "sdist", SHA["sdist"], str(mirror), tmp_path / "got")


@pytest.fixture
def sdist(tmp_path) -> Path:
    path = tmp_path / "demo.sdist"
    path.write_bytes(SDIST)
    return path


def test_members_of_an_archive_and_of_one_inside_it(sdist, tmp_path):
    archives.unpack_file(sdist, None, "demo-corpus-1.2/data/rows.csv", tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text() == CSV
    archives.unpack_file(sdist, "demo-corpus-1.2/data/inner.tar.gz", "folder/rows.txt", tmp_path / "rows.txt")
    assert (tmp_path / "rows.txt").read_text() == ROWS
    assert {p.name for p in tmp_path.iterdir()} == {"demo.sdist", "rows.csv", "rows.txt"}


def test_a_missing_member_is_named_with_the_nearest(sdist, tmp_path):
    with pytest.raises(UserError) as caught:
        archives.unpack_file(sdist, None, "demo-corpus-1.2/data/row.csv", tmp_path / "rows.csv")
    assert "demo.sdist has no member 'demo-corpus-1.2/data/row.csv'; did you mean" in one_line(caught)
    with pytest.raises(UserError, match="has no member 'folder/none.txt'"):
        archives.unpack_file(sdist, "demo-corpus-1.2/data/inner.tar.gz", "folder/none.txt", tmp_path / "rows.txt")
    with pytest.raises(UserError, match="setup.py is neither a zip nor a tar archive"):
        archives.unpack_file(sdist, "demo-corpus-1.2/setup.py", "rows.txt", tmp_path / "rows.txt")
    assert {p.name for p in tmp_path.iterdir()} == {"demo.sdist"}


def test_links_and_large_members_are_not_read(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a.tar").write_bytes(tar({"rows.txt": b"0123456789"}, "w", {"link": "secret", "out": "../secret"}))
    for name in ("link", "out", "../secret"):
        with pytest.raises(UserError, match="has no member"):
            archives.unpack_file(tmp_path / "a.tar", None, name, tmp_path / "got")
    monkeypatch.setattr(archives, "LIMIT", 9)
    with pytest.raises(UserError, match="'rows.txt' has 10 bytes, more than 9 are not read"):
        archives.unpack_file(tmp_path / "a.tar", None, "rows.txt", tmp_path / "got")
    assert not (tmp_path / "got").exists()


def test_a_folder_gives_its_model_and_no_code(tmp_path):
    from gnorm.data.saved import model_files

    (tmp_path / "a.wheel").write_bytes(WHEEL)
    archives.unpack_folder(tmp_path / "a.wheel", None, "demo_corpus/model/", model_files, tmp_path / "model")
    assert {p.name for p in (tmp_path / "model").iterdir()} == {"config.json", "model.safetensors", "tokenizer.json"}
    with pytest.raises(UserError, match="a.wheel has no member 'demo_corpus/models'; did you mean 'demo_corpus/model'"):
        archives.unpack_folder(tmp_path / "a.wheel", None, "demo_corpus/models", model_files, tmp_path / "other")
    (tmp_path / "evil.zip").write_bytes(zipped({"m/..": b"x", "m/config.json": b"{}"}))
    with pytest.raises(UserError, match="has no weights"):
        archives.unpack_folder(tmp_path / "evil.zip", None, "m", model_files, tmp_path / "other")
    assert not (tmp_path / "other").exists()


ENTRY = {
    "source": "package",
    "package": "demo-corpus",
    "version": "1.2",
    "kind": "sdist",
    "sha256": SHA["sdist"],
    "archive": "demo-corpus-1.2/data/inner.tar.gz",
    "member": "folder/rows.txt",
    "columns": ["id", "score", "text"],
    "text": "text",
    "label": "score",
    "classes": ["negative", "positive"],
    "neutral": 0.8,
    "distinct": True,
}


def suite_of_a_package(folder: Path, **changes) -> None:
    suite = yaml.safe_load((folder / "suites/smoke.yaml").read_text())
    bert = suite["models"].pop("BERT")
    rows = {"train": 1, "calibration": 1, "evaluation": 1}
    suite["models"] = {"OWN": bert | {"dataset": ENTRY | changes, "rows": rows}}
    (folder / "suites/own.yaml").write_text(yaml.safe_dump(suite))


def test_a_suite_of_a_package(mirror, tmp_path):
    """The workflow from an archive to rows; a wrong checksum or member is one line, and a second run does nothing."""
    from gnorm.data.rows import read

    folder = copy_workflow(tmp_path / "tree")
    suite_of_a_package(folder, sha256="f" * 64)
    run = ("--config", "suite=own", f"package_mirror={mirror}", "--", "datasets")
    made = snakemake(folder, *run)
    assert made.returncode and "the suite says ffff" in made.stderr and "Traceback" not in made.stderr
    suite_of_a_package(folder, member="folder/rows.tsv")
    made = snakemake(folder, *run)
    assert made.returncode and "did you mean 'folder/rows.txt'?" in made.stderr and "Traceback" not in made.stderr
    suite_of_a_package(folder)
    made = snakemake(folder, *run)
    assert made.returncode == 0, made.stderr[-3000:]
    dataset = folder / "results/own/OWN/dataset"
    rows = [row for which in ("train", "calibration", "evaluation") for row in read(dataset, which)]
    # The neutral row and the second "bad" are left out; 0.8 is just outside the band, a quote is a character.
    assert {(row["text"], row["label_name"], row["label"]) for row in rows} == {
        ('good "quoted', "positive", 1),
        ("bad", "negative", 0),
        ("just good", "positive", 1),
    }
    assert "Nothing to be done" in (again := snakemake(folder, *run)).stdout + again.stderr
    assert not list(folder.rglob(MARK))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 0.5}, "version: must be of type string, got 0.5 (version of the package, in quotes)"),
        ({"sha256": "abc"}, "sha256: must be checksum of that archive, 64 hexadecimal digits, got 'abc'"),
        ({"kind": "egg"}, "kind: there is no value 'egg'; allowed: wheel, sdist"),
        ({"classes": ["a", "b", "c"]}, "`neutral` tells two classes apart, got ['a', 'b', 'c']"),
        ({"members": "x"}, "there is no key 'members'; did you mean 'member'?"),
    ],
)
def test_mistakes_in_an_entry(changes, said, tmp_path):
    folder = copy_workflow(tmp_path)
    suite_of_a_package(folder, **changes)
    with pytest.raises(UserError) as caught:
        settings.load({"suite": "own", "strategies": {"greedy_gnorm": {"score": "gnorm"}}}, folder)
    assert said in one_line(caught)


def test_an_archive_has_one_checksum(tmp_path):
    folder = copy_workflow(tmp_path)
    suite_of_a_package(folder)
    suite = yaml.safe_load((folder / "suites/own.yaml").read_text())
    suite["models"]["TWO"] = suite["models"]["OWN"] | {"dataset": ENTRY | {"sha256": "0" * 64}}
    (folder / "suites/own.yaml").write_text(yaml.safe_dump(suite))
    with pytest.raises(UserError, match=r"models.TWO: demo-corpus 1.2 sdist has another sha256 elsewhere"):
        settings.load({"suite": "own", "strategies": {"greedy_gnorm": {"score": "gnorm"}}}, folder)
