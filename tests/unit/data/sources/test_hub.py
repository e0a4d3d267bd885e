"""Fetching from the hub and from its mirror, and what is said where that fails; no network."""

import gzip
import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pandas as pd
import pytest
from huggingface_hub import constants, file_download
from support import ROOT, copy_workflow, run_python, snakemake

from gnorm.data import prepare, records, saved
from gnorm.data.sources import hub
from gnorm.errors import UserError
from gnorm.models.folders import SUMS

MODEL = {"config.json": "{}", "tokenizer.json": "{}", "model.safetensors": "weights"}
TABLE = pd.DataFrame({"text": ["一", "two, three", "four"], "labels": ["zh", "en", "en"]})


def one_line(caught) -> str:
    assert "\n" not in str(caught.value)
    return str(caught.value)


def fetch_model(name, revision, mirror, folder):
    hub.fetch_model({"id": name, "revision": revision}, folder, mirror)


def fetch_dataset(name, revision, config, split, mirror, path):
    hub.fetch_dataset({"id": name, "revision": revision, "config": config, "split": split}, path, mirror)


def fill(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


class Hub:
    """Serves repositories as the hub does, as far as a download needs it."""

    COMMIT = "0123456789abcdef0123456789abcdef01234567"

    def __init__(self):
        self.repositories: dict[str, dict[str, bytes]] = {}  # by "models/owner/name" or "datasets/owner/name"
        self.asked: list[str] = []
        self.broken: dict[str, int] = {}  # status of every answer, by what is asked for: "api" or "file"
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                outer.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, request):
        api = re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)/revision/([^/]+)", request.path)
        file = re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", request.path)
        kind, name = (api[1], api[2]) if api else ((file[1] or "models/")[:-1], file[2])
        files, revision = self.repositories.get(f"{kind}/{name}"), (api or file)[3]
        if (status := self.broken.get("api" if api else "file")) is not None:
            return self.send(request, status, b"")
        if files is None:
            return self.send(request, 401 if name.startswith("gone/") else 404, b"", {"X-Error-Code": "RepoNotFound"})
        if revision not in ("main", self.COMMIT):
            return self.send(request, 404, b"", {"X-Error-Code": "RevisionNotFound"})
        if api:
            listed = [{"rfilename": path} for path in files]
            body = json.dumps({"id": name, "sha": self.COMMIT, "siblings": listed}).encode()
            return self.send(request, 200, body, {"Content-Type": "application/json"})
        body = files[file[4]]
        return self.send(request, 200, body, {"ETag": f'"{hash(body)}"', "X-Repo-Commit": self.COMMIT})

    @staticmethod
    def send(request, status, body, headers=None):
        request.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            request.send_header(key, value)
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)


@pytest.fixture
def server():
    served = Hub()
    yield served
    served.server.shutdown()
    served.server.server_close()


@pytest.fixture
def point_at(monkeypatch):
    """Let the library take another address for the hub; the settings of this machine's network do not matter."""

    def point(url):
        monkeypatch.setattr(constants, "ENDPOINT", url)
        template = url + "/{repo_id}/resolve/{revision}/{filename}"
        for module in (constants, file_download):  # the second reads it in versions before 1
            monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    return point


@pytest.fixture
def fake_hub(server, point_at):
    point_at(server.url)
    return server


def test_only_what_a_model_needs():
    names = [
        *MODEL,
        "vocab.txt",
        "pytorch_model.bin",
        "training_args.bin",
        "modeling.py",
        "onnx/model.onnx",
        "README.md",
    ]
    assert saved.model_files(names, "m") == ["config.json", "tokenizer.json", "vocab.txt", "model.safetensors"]
    split = ["config.json", "spiece.model", "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    split += ["pytorch_model.bin.index.json", "tf_model.h5"]
    assert set(split) - set(saved.model_files(split, "m")) == {"tf_model.h5"}


@pytest.mark.parametrize("missing,named", [("config.json",) * 2, ("tokenizer.json",) * 2, ("model.safetensors",) * 2])
def test_what_a_model_lacks(missing, named):
    with pytest.raises(UserError, match=f"the model has no .*{named}") as caught:
        saved.model_files([name for name in MODEL if name != missing], "the model")
    one_line(caught)


def fetched(folder):
    """The files of a model, which all have their digest beside them."""
    files = {path.name: path.read_text() for path in folder.iterdir() if path.name != ".snakemake_timestamp"}
    digests = dict(reversed(line.split("  ")) for line in files.pop(SUMS).splitlines())
    assert digests == {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    return files


def test_a_model_from_the_mirror(tmp_path):
    fill(tmp_path / "mirror/models/a/b", MODEL | {"pytorch_model.bin": "no", "modeling.py": "no"})
    (tmp_path / "mirror/models/a/b/onnx").mkdir()
    fetch_model("a/b", "main", str(tmp_path / "mirror"), tmp_path / "out/model")
    assert fetched(tmp_path / "out/model") == MODEL
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]


@pytest.mark.parametrize("config", [None, "c"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_dataset_from_the_mirror(tmp_path, kind, config):
    folder = tmp_path / "datasets/a/b" / (config or "")
    folder.mkdir(parents=True)
    (TABLE.to_csv if kind == "csv" else TABLE.to_parquet)(folder / f"dev.{kind}", index=False)
    fetch_dataset("a/b", "main", config, "dev", str(tmp_path), tmp_path / "out/dataset.parquet")
    assert pd.read_parquet(tmp_path / "out/dataset.parquet").equals(TABLE)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["dataset.parquet"]


def test_what_a_mirror_lacks(tmp_path):
    mirror, out = tmp_path / "mirror", tmp_path / "out"
    for fetch in (
        lambda: fetch_model("a/b", "main", str(mirror), out / "model"),
        lambda: fetch_dataset("a/b", "main", None, "dev", str(mirror), out / "dataset.parquet"),
    ):
        with pytest.raises(UserError) as caught:
            fetch()
        assert f"hub_mirror: there is no folder {mirror}; it must exist and hold {mirror}/" in one_line(caught)
    mirror.mkdir()
    with pytest.raises(UserError) as caught:
        fetch_model("a/b", "main", str(mirror), out / "model")
    assert one_line(caught).endswith(f"no model a/b: put what save_pretrained writes into {mirror}/models/a/b/")
    with pytest.raises(UserError) as caught:
        fetch_dataset("a/b", "main", "c", "dev", str(mirror), out / "dataset.parquet")
    expected = f"no split 'dev' of the dataset a/b: put the split into {mirror}/datasets/a/b/c/dev.parquet or dev.csv"
    assert one_line(caught).endswith(expected)
    fill(mirror / "datasets/a/b/c", {"test.csv": "t,y\n"})
    with pytest.raises(UserError, match="dev.csv; the folder has test.csv$"):
        fetch_dataset("a/b", "main", "c", "dev", str(mirror), out / "dataset.parquet")
    fill(mirror / "models/a/b", {"config.json": "{}"})
    with pytest.raises(UserError, match=f"{mirror}/models/a/b has no weights"):
        fetch_model("a/b", "main", str(mirror), out / "model")
    assert not out.exists() or not list(out.iterdir())


def test_a_model_from_the_hub(fake_hub, tmp_path):
    files = MODEL | {"pytorch_model.bin": "no", "modeling.py": "no", "README.md": "no"}
    fake_hub.repositories["models/a/b"] = {name: text.encode() for name, text in files.items()}
    fetch_model("a/b", "main", None, tmp_path / "model")
    assert fetched(tmp_path / "model") == MODEL
    assert not any("pytorch_model" in path or ".py" in path for path in fake_hub.asked)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


CARD = """---
configs:
- config_name: one
  data_files:
  - {split: train, path: one/train*}
  - {split: dev_matched, path: one/dev*}
- config_name: two
  data_files:
  - {split: train, path: two/train*}
---
"""


def test_a_dataset_from_the_hub(fake_hub, tmp_path):
    csv, parquet = TABLE.to_csv(index=False).encode(), TABLE.to_parquet(index=False)
    fake_hub.repositories["datasets/a/plain"] = {"train.csv": csv + b"five,en\n", "valid.csv": csv, "plain.py": b"no"}
    fetch_dataset("a/plain", "main", None, "validation", None, tmp_path / "dataset.parquet")
    assert pd.read_parquet(tmp_path / "dataset.parquet").equals(TABLE)
    fake_hub.repositories["datasets/a/card"] = {
        "README.md": CARD.encode(),
        "one/train-00000.parquet": parquet,
        "one/dev-00000.parquet": TABLE[:2].to_parquet(index=False),
        "two/train-00000.parquet": parquet,
    }
    fetch_dataset("a/card", "main", "one", "dev_matched", None, tmp_path / "dataset.parquet")
    assert pd.read_parquet(tmp_path / "dataset.parquet").equals(TABLE[:2])
    for config, split, message in (
        ("three", "train", "the dataset a/card has no config 'three'; allowed: one, two"),
        (None, "train", "the dataset a/card has several configs; set `config:` to one of one, two"),
        ("one", "test", "the dataset a/card has no split 'test'; allowed: train, dev_matched"),
    ):
        with pytest.raises(UserError) as caught:
            fetch_dataset("a/card", "main", config, split, None, tmp_path / "other.parquet")
        assert one_line(caught) == message
    fake_hub.repositories["datasets/a/empty"] = {"README.md": b"nothing here", "empty.py": b"no"}
    with pytest.raises(
        UserError, match="the dataset a/empty cannot be read .*run with --config hub_mirror=DIR"
    ) as caught:
        fetch_dataset("a/empty", "main", None, "train", None, tmp_path / "other.parquet")
    one_line(caught)
    assert not any(".py" in path for path in fake_hub.asked)
    assert [path.name for path in tmp_path.iterdir()] == ["dataset.parquet"]


@pytest.mark.fault("texts of a dataset on the hub are `007`, `0.50` or `NA` in a CSV file", "kept as they are written")
def test_texts_of_a_repository_are_as_written(fake_hub, tmp_path):
    fake_hub.repositories["datasets/a/plain"] = {"train.csv": b"text,label,n\n007,NA,1\n0.50,None,2\n1e3,null,\n"}
    fetch_dataset("a/plain", "main", None, "train", None, tmp_path / "rows.parquet")
    table = pd.read_parquet(tmp_path / "rows.parquet")
    assert table["text"].tolist() == ["007", "0.50", "1e3"] and table["label"].tolist() == ["NA", "None", "null"]
    assert table["n"].tolist()[:2] == ["1", "2"] and table["n"].isna().tolist() == [False, False, True]


DECLARED = {
    "text: int64": b"  - {name: text, dtype: int64}\n  - {name: label, dtype: int64}\n",
    "text: float32": b"  - {name: text, dtype: float32}\n",
    "label: class_label": b"  - {name: text, dtype: string}\n"
    b"  - {name: label, dtype: {class_label: {names: {'0': NA, '1': None}}}}\n",
}


@pytest.mark.parametrize("card", DECLARED)
@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.fault(
    "the card of a dataset on the hub declares texts of a CSV file to be numbers", "kept as they are written"
)
def test_declared_types_change_no_text(fake_hub, tmp_path, card, packed):
    rows = b"text,label\n007,NA\n0.50,None\n"
    fake_hub.repositories["datasets/a/typed"] = {
        f"train.csv{packed}": gzip.compress(rows) if packed else rows,
        "README.md": b"---\ndataset_info:\n  features:\n" + DECLARED[card] + b"---\n",
    }
    fetch_dataset("a/typed", "main", None, "train", None, tmp_path / "typed.parquet")
    table = pd.read_parquet(tmp_path / "typed.parquet")
    assert table["text"].tolist() == ["007", "0.50"] and table["label"].tolist() == ["NA", "None"]


@pytest.mark.fault("a CSV file of a dataset on the hub has a column twice", "refused; dataset and column are named")
def test_a_column_twice_in_a_repository(fake_hub, tmp_path):
    fake_hub.repositories["datasets/a/b"] = {"train.csv": b"text,text,label\n007,008,1\n"}
    with pytest.raises(UserError, match="the dataset a/b has the column 'text' twice: remove one, or rename it"):
        fetch_dataset("a/b", "main", None, "train", None, tmp_path / "rows.parquet")
    assert not (tmp_path / "rows.parquet").exists()


@pytest.mark.fault("texts of JSON lines or parquet files were taken for dates", "refused; the column is named")
def test_texts_that_were_taken_for_dates(fake_hub, tmp_path):
    """The library takes JSON's text `2020-01-01` for a date, which would read `2020-01-01 00:00:00` from then on."""
    fake_hub.repositories["datasets/a/b"] = {"train.jsonl": b'{"text": "2020-01-01", "other": "a"}\n'}
    fetch_dataset("a/b", "main", None, "train", None, tmp_path / "rows.parquet")
    assert records.read(tmp_path / "rows.parquet", plain=["other"])["other"][:] == ["a"]
    with pytest.raises(
        UserError, match="rows.parquet: the column 'text' holds timestamp.*, not text as it was written"
    ):
        records.read(tmp_path / "rows.parquet", plain=["text"])


INSTEAD = {
    "model": "or put what save_pretrained writes into DIR/models/{}/ and run with --config hub_mirror=DIR",
    "dataset": "or put the split into DIR/datasets/{}/c/dev.parquet or dev.csv and run with --config hub_mirror=DIR",
}


def fetch(kind, name, folder, revision="main"):
    if kind == "model":
        fetch_model(name, revision, None, folder / "model")
    else:
        fetch_dataset(name, revision, "c", "dev", None, folder / "dataset.parquet")


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_what_the_hub_refuses(fake_hub, tmp_path, kind):
    fake_hub.repositories[f"{kind}s/a/b"] = {"config.json": b"{}"}
    for name, revision, message in (
        ("no/such", "main", f"the hub has no {kind} no/such, or it is private: correct `id:` in the suite"),
        ("gone/away", "main", f"the hub has no {kind} gone/away, or it is private"),
        ("a/b", "v9", f"the {kind} a/b has no revision 'v9' on the hub: correct `revision:` in the suite"),
    ):
        with pytest.raises(UserError) as caught:
            fetch(kind, name, tmp_path, revision)
        assert one_line(caught).startswith(message) and str(caught.value).endswith(INSTEAD[kind].format(name))
    fake_hub.repositories[f"{kind}s/a/b"] = {name: text.encode() for name, text in MODEL.items()}
    for fake_hub.broken in ({"api": 503}, {"file": 501}):
        (status,) = fake_hub.broken.values()
        with pytest.raises(UserError, match=f"answers with HTTP status {status}") as caught:
            fetch(kind, "a/b", tmp_path)
        one_line(caught)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_no_hub_is_said_at_once(server, point_at, tmp_path, kind):
    server.server.shutdown()
    server.server.server_close()
    point_at(server.url)
    began = time.monotonic()
    with pytest.raises(UserError) as caught:
        fetch(kind, "a/b", tmp_path)
    assert time.monotonic() - began < 10
    assert one_line(caught).startswith(f"the hub {server.url} cannot be reached (ConnectionError) for the {kind} a/b: ")
    assert str(caught.value).endswith(INSTEAD[kind].format("a/b")) and not list(tmp_path.iterdir())


def test_the_rule_reaches_the_hub_and_nothing_else_does(server, tmp_path):
    """In the workflow every process inherits the ban, and the download lifts it."""
    name = "hw2942/bert-base-chinese-finetuning-financial-news-sentiment-v2"
    server.repositories[f"models/{name}"] = {file: text.encode() for file, text in MODEL.items()}
    copy_workflow(tmp_path)
    outside = {"HF_ENDPOINT": server.url, "NO_PROXY": "127.0.0.1", "HOME": str(tmp_path / "home")}
    target = "results/paper/BERT/download/model"
    made = snakemake(tmp_path, target, "--config", "suite=paper", **outside)
    assert made.returncode == 0, made.stderr[-3000:]
    assert fetched(tmp_path / target) == MODEL
    assert f"is commit {Hub.COMMIT}" in (tmp_path / "results/paper/logs/fetch_model/BERT.log").read_text()
    assert not (tmp_path / "home/.cache/huggingface").exists()


def test_a_missing_mirror_is_one_line_in_the_workflow(tmp_path):
    copy_workflow(tmp_path)
    (tmp_path / "mirror").mkdir()
    target = "results/paper/ALBERT/download/dataset.parquet"
    made = snakemake(tmp_path, target, "--config", "suite=paper", "hub_mirror=mirror")
    assert made.returncode != 0 and "Traceback" not in made.stderr
    (said,) = [line for line in made.stderr.splitlines() if line.startswith("[ALBERT dataset]")]
    assert said.endswith(
        "put the split into mirror/datasets/nyu-mll/glue/mnli/validation_matched.parquet or validation_matched.csv"
    )


PROBE = """

rule probe:
    output:
        "probe.txt",
    script:
        "scripts/probe.py"
"""


def test_every_job_finds_the_hub_offline(tmp_path):
    """Whatever the shell says: the Snakefile takes it offline, and every library of the hub reads that."""
    copy_workflow(tmp_path)
    with open(tmp_path / "Snakefile", "a") as file:
        file.write(PROBE)
    (tmp_path / "scripts/probe.py").write_text(
        "import datasets, transformers\nfrom huggingface_hub import constants\n"
        "offline = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE, transformers.utils.hub.is_offline_mode()\n"
        "open(snakemake.output[0], 'w').write(repr(offline))\n"
    )
    made = snakemake(tmp_path, "--config", "suite=smoke", "--", "probe.txt", HF_HUB_OFFLINE=None)
    assert made.returncode == 0, made.stderr[-3000:]
    assert (tmp_path / "probe.txt").read_text() == "(True, True, True)"


def test_what_make_runs_finds_the_hub_offline():
    assert re.search(r"^export HF_HUB_OFFLINE = 1$", (ROOT / "Makefile").read_text(), re.M)


def test_only_a_download_opens_a_connection(tmp_path):
    program = f"""
import socket, sys

def refuse(*_a, **_k):
    raise AssertionError("a connection was tried")

socket.getaddrinfo = socket.create_connection = socket.socket.connect = refuse
import make_checkpoint, make_dataset
import datasets, transformers
from gnorm.errors import UserError
from gnorm.data.sources import hub
from huggingface_hub import HfApi, constants

for reach in (
    lambda: transformers.AutoConfig.from_pretrained("owner/name"),
    lambda: transformers.AutoTokenizer.from_pretrained("owner/name"),
    lambda: datasets.load_dataset("owner/name"),
    lambda: HfApi().model_info("owner/name"),
):
    try:
        reach()
    except (OSError, ConnectionError) as error:
        assert "a connection was tried" not in repr(error), error
    else:
        raise SystemExit("nothing stopped it")
try:
    hub.fetch_model(dict(id="owner/name", revision="main"), {str(tmp_path / "model")!r}, None)
except AssertionError as error:
    print(error)
assert constants.HF_HUB_OFFLINE
"""
    made = run_python(program, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "home"))
    assert made.returncode == 0 and made.stdout.strip() == "a connection was tried", made.stderr[-2000:]


def test_fetched_files_are_read_like_any_other(tmp_path):
    (tmp_path / "datasets/a/b").mkdir(parents=True)
    TABLE.to_csv(tmp_path / "datasets/a/b/dev.csv", index=False)
    fetch_dataset("a/b", "main", None, "dev", str(tmp_path), tmp_path / "dataset.parquet")
    entry = {"source": "file", "path": str(tmp_path / "dataset.parquet"), "text": "text", "pair": None}
    entry |= {"label": "labels", "classes": ["en", "zh"], "unscored": [], "order": "as_is"}
    counts = {"train": 0, "calibration": 3, "entropy": "same", "evaluation": "same", "disjoint": True}
    rows, splits, _ = prepare.make(entry, counts, seed=0)
    assert rows["label"] == [1, 0, 0] and rows["text"][1] == "two, three" and splits["evaluation"] == [0, 1, 2]
