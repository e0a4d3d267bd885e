"""What a new user may do wrong: one line each, that says what to change."""

import io
import os
import tarfile
import time
import zipfile

import pandas as pd
import pytest
import yaml
from snakemake.io import PeriodicityDetector
from support import ROOT, copy_workflow, make_dataset, snakemake

from gnorm import tables
from gnorm.data import archives, prepare
from gnorm.errors import UserError
from gnorm.figures import style
from gnorm.settings import suites

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())


@pytest.fixture
def home(tmp_path, monkeypatch, make_tiny):
    """A home folder with a model, its tokenizer and rows; the workflow is beside it."""
    folder = tmp_path / "home"
    monkeypatch.setenv("HOME", str(folder))
    tiny = make_tiny("bert")
    tiny.model.float().config.id2label = {0: "negative", 1: "neutral", 2: "positive"}
    tiny.model.save_pretrained(folder / "model")
    tiny.tokenizer.save_pretrained(folder / "model")
    rows = pd.DataFrame({"text": [row["text"] for row in tiny.rows], "label": "neutral"})
    rows.to_csv(folder / "rows.csv", index=False)
    copy_workflow(tmp_path / "tree")
    return folder


def entry(**changes):
    """The suite's entry of that model."""
    made = {
        "dataset": {"source": "file", "path": "~/rows.csv", "text": "text", "label": "label", "classes": "model"},
        "checkpoint": {"source": "local", "path": "~/model"},
        "rows": {"calibration": 4, "evaluation": 8},
        "random": {"trials": 2, "levels": 3},
    }
    return {key: {**made[key], **changes.pop(key, {})} for key in made} | changes


def load(home, name="M", config=None, **changes):
    tree = home.parent / "tree"
    (tree / "suites/mine.yaml").write_text(yaml.safe_dump({"models": {name: entry(**changes)}}))
    return suites.load(CONFIG | {"suite": "mine"} | (config or {}), tree)


def refused(home, message, **changes):
    with pytest.raises(UserError, match=message) as caught:
        load(home, **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.fault("a path begins with ~", "it is that of the home folder")
def test_paths_of_the_home_folder(home, record_property):
    found = load(home, config={"published": "~/clone", "hub_mirror": "~/hub", "package_mirror": "~/wheels"})
    assert found["models"]["M"]["dataset"]["path"] == f"{home}/rows.csv"
    assert found["models"]["M"]["checkpoint"]["path"] == f"{home}/model"
    assert [found[key] for key in ("published", "hub_mirror", "package_mirror")] == [
        f"{home}/{name}" for name in ("clone", "hub", "wheels")
    ]
    (home / "model").rename(home / "other")
    tuned = {"source": "finetune", "from": {"source": "local", "path": "~/other"}}
    tuned_rows = {"train": 4, "calibration": 4, "evaluation": 8}
    tree = home.parent / "tree"
    model = entry(rows=tuned_rows) | {"checkpoint": tuned}
    model["dataset"]["classes"] = ["negative", "neutral", "positive"]
    (tree / "suites/mine.yaml").write_text(yaml.safe_dump({"models": {"M": model}}))
    found = suites.load(CONFIG | {"suite": "mine"}, tree)
    assert found["models"]["M"]["checkpoint"]["from"]["path"] == f"{home}/other"
    (tree / "suites/mine.yaml").write_text(yaml.safe_dump({"models": {"M": entry(checkpoint={"path": "~/other"})}}))
    made = snakemake(tree, "--quiet", "rules", "--config", "suite=mine", "--", "checkpoints", HOME=str(home))
    assert made.returncode == 0, made.stderr[-3000:]
    record_property("tried", 6)


@pytest.mark.fault("a model's folder has no tokenizer", "refused while planning; the files it may have are named")
def test_a_model_without_a_tokenizer(home):
    for path in (home / "model").iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            path.unlink()
    refused(home, r"M.checkpoint.path: .*/model has no tokenizer \(tokenizer.json, vocab.txt, .*: save it there")


BROKEN = {
    '{"model_type": "bert", "id2label": {"0": "a"': "config.json is damaged or cut short",
    '{"id2label": ["a", "b"]}': "config.json must hold an object, and its id2label another, with a name for",
    '{"id2label": {"first": "a"}}': "config.json must hold an object",
    "[1]": "config.json must hold an object",
    "\udcff": "config.json is damaged or cut short",
}


@pytest.mark.fault("config.json is cut, no object, or its id2label a list", "refused while planning; the file is named")
def test_a_configuration_that_cannot_be_read(home, record_property):
    for content, message in BROKEN.items():
        (home / "model/config.json").write_bytes(content.encode(errors="surrogateescape"))
        refused(home, f"^suites/mine.yaml: models.M.checkpoint.path: .*{message}")
        with pytest.raises(UserError, match=message):  # of a download
            prepare.model_classes(home / "model")
    record_property("tried", 2 * len(BROKEN))


@pytest.mark.fault("a path has {x} in it, which Snakemake takes for a wildcard", "refused while planning")
def test_paths_with_wildcards(home, record_property):
    (home / "rows.csv").rename(home / "rows{x}.csv")
    refused(home, "M.dataset.path: Snakemake takes { and } for wildcards; rename", dataset={"path": "~/rows{x}.csv"})
    (home / "rows{x}.csv").rename(home / "rows.csv")
    (home / "model/{note}.txt").touch()
    refused(home, "M.checkpoint.path: Snakemake takes { and } for wildcards; rename .*/model/{note}.txt")
    refused(home, "config.yaml: published: Snakemake takes { and }", config={"published": "{x}"})
    record_property("tried", 3)


@pytest.mark.fault("a path has `::`, `[`, `*` or a blank in it", "the file of that very name is read")
def test_a_path_with_colons_and_brackets_is_read(home):
    for name in ("x::y.csv", "a[1].csv", "a b.csv", "*.csv"):
        (home / "rows.csv").rename(home / name)
        load(home, dataset={"path": f"~/{name}"})
        made = snakemake(
            *(home.parent / "tree", "--quiet", "rules", "--config", "suite=mine", "--", "datasets"), HOME=str(home)
        )
        assert made.returncode == 0, made.stderr[-3000:]
        (home / name).rename(home / "rows.csv")


@pytest.mark.fault("a suite, model or strategy has a name of 250 letters", "refused while planning")
def test_names_longer_than_a_file_may_have(home, record_property):
    long = "M" * 250
    refused(home, "use letters, digits, _ and -, 80 at most", name=long)
    refused(home, "80 at most", config={"strategies": CONFIG["strategies"] | {long: {"score": "gnorm"}}})
    (home.parent / f"tree/suites/{long}.yaml").write_text("models: {}\n")
    refused(home, "must have at most 80 letters, digits, _ and -", config={"suite": long})
    load(home, name="Model-of-8" * 8)
    record_property("tried", 3)


@pytest.mark.fault("a name ends with the same letters 20 times, as in `aaaaaaaaaaaaaaaaaaaa`", "refused while planning")
def test_names_whose_end_repeats(home, record_property):
    """Snakemake stops at them with its PeriodicWildcardError."""
    for name in ("M" * 20, "x" + "ab" * 20, "-_-" * 21):
        said = "ends with the same letters 20 times in a row; choose another name"
        refused(home, f"^suites/mine.yaml: models.{name}: '{name}' {said}", name=name)
        refused(home, said, config={"strategies": CONFIG["strategies"] | {name: {"score": "gnorm"}}})
        (home.parent / f"tree/suites/{name}.yaml").write_text("models: {}\n")
        refused(home, f"config.yaml: suite: '{name}' {said}", config={"suite": name})
    load(home, name="M" * 19)
    snakemake_s = PeriodicityDetector()
    assert snakemake_s.is_periodic("M" * 20) and not snakemake_s.is_periodic("M" * 19)
    record_property("tried", 9)


@pytest.mark.fault("a file of rows or of a model is dated in the future", "refused while planning, says what mends it")
def test_files_dated_in_the_future(home, record_property):
    for path, key in ((home / "rows.csv", "dataset"), (home / "model/config.json", "checkpoint")):
        os.utime(path, (time.time() + 86400,) * 2)
        refused(home, f"M.{key}.path: {path} is dated in the future: correct that with `touch {path}`")
        path.touch()
        load(home)
    record_property("tried", 2)


@pytest.mark.fault("a title has control characters, or none at all", "refused while planning")
def test_titles_with_control_characters(home, record_property):
    titles = ["a\x07b", "a\nb", "\x1b[31m", " ", ""]
    for title in titles:
        refused(home, "models.M.title: .* must be a line of text without control characters", title=title)
    record_property("tried", len(titles))


@pytest.mark.fault("a title has $, % or other marks of LaTeX", "figures show them, tables escape them")
def test_titles_with_marks_of_latex(tmp_path, record_property):
    titles = ["cost $", r"$\frac{$", r"a_b & 100% #1 {x} ~ ^ \n"]
    figure, axes = style.panels(len(titles), 2)
    for axis, title in zip(axes, titles, strict=True):
        axis.set(title=title, xlabel=title)
        axis.plot([0, 1], label=title)
    style.legend(figure, axes)
    style.save(figure, tmp_path / "a.png", tmp_path / "a.pdf", 50)
    files = {kind: tmp_path / f"a.{kind}" for kind in ("csv", "markdown", "latex", "page")}
    tables.write(pd.DataFrame({"model": titles, "area": 0.5}), {}, "50% of $x$", **files)
    text = files["latex"].read_text()
    assert (
        r"cost \$ &" in text
        and r"a\_b \& 100\% \#1 \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{}n" in text
    )
    assert r"\caption{50\% of \$x\$}" in text
    record_property("tried", len(titles))


@pytest.mark.fault("a seed of more than 32 bits", "refused while planning")
def test_a_seed_that_libraries_do_not_take(home, record_property):
    for seed in (2**70, 2**32, 4294960001):
        refused(home, f"config.yaml: seed: must be at most 4294960000, got {seed}", config={"seed": seed})
    load(home, config={"seed": 4294960000})
    record_property("tried", 3)


def zipped(compression=zipfile.ZIP_DEFLATED):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        archive.writestr("folder/rows.csv", "text,label\n" + "a,b\n" * 5000)
    return made.getvalue()


def tarred(kind):
    made, content = io.BytesIO(), os.urandom(50_000)
    with tarfile.open(fileobj=made, mode=f"w:{kind}") as archive:
        info = tarfile.TarInfo("folder/rows.csv")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def encrypted(archive):
    """Say in both headers of its only member that it is encrypted."""
    at = archive.index(b"PK\x01\x02") + 8
    return archive[:6] + b"\x01" + archive[7:at] + b"\x01" + archive[at + 1 :]


def damaged(archive):
    middle = len(archive) // 3
    return archive[:middle] + bytes([archive[middle] ^ 0xFF]) * 8 + archive[middle + 8 :]


ARCHIVES = {
    "encrypted.zip": (encrypted(zipped()), "cannot be unpacked .*password"),
    "damaged.zip": (damaged(zipped()), "is damaged or cut short|is neither a zip nor a tar"),
    "stored.zip": (damaged(zipped(zipfile.ZIP_STORED)), "is damaged or cut short"),
    "cut.zip": (zipped()[:-30], "is neither a zip nor a tar archive"),
    **{
        f"{what}.tar.{kind}": (change(tarred(kind)), "is damaged or cut short|is neither a zip nor a tar archive")
        for kind in ("gz", "bz2", "xz")
        for what, change in (("cut", lambda whole: whole[: len(whole) // 2]), ("damaged", damaged))
    },
}


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.fault("an archive is encrypted, damaged or cut", "refused; the archive is named")
def test_archives_that_cannot_be_unpacked(tmp_path, name):
    content, message = ARCHIVES[name]
    (tmp_path / name).write_bytes(content)

    def everything(names, _):
        return list(names)

    for unpack in (
        lambda: archives.unpack_file(tmp_path / name, None, "folder/rows.csv", tmp_path / "rows.csv"),
        lambda: archives.unpack_folder(tmp_path / name, None, "folder", everything, tmp_path / "folder"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            unpack()
        assert "\n" not in str(caught.value) and name in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "content,changes,message",
    [
        (b"text;label\na;neutral\n", {}, 'has no column .text.; .*set `separator: ";"`'),
        ("text,label\ncaf\xe9,neutral\n".encode("windows-1252"), {}, "is not in UTF-8 .*`encoding: windows-1252`"),
        (b"text,label\n", {}, "rows.csv has no rows, only the columns text, label"),
        (b"good,neutral\nbad,neutral\n", {}, "name them in `columns:`"),
    ],
)
@pytest.mark.fault("a CSV file has semicolons, another encoding, no rows or no header", "one line says what to set")
def test_files_of_rows_that_other_programs_wrote(home, tmp_path, content, changes, message):
    (home / "rows.csv").write_bytes(content)
    model = load(home, dataset=changes)["models"]["M"]
    with pytest.raises(UserError, match=message):
        make_dataset(model["dataset"], model["checkpoint"], model["rows"], tmp_path)


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
@pytest.mark.fault("integer labels, one of them empty, so that the others read `1.0`", "the row that lacks it is named")
def test_integer_labels_with_one_empty(home, tmp_path, kind):
    """What pandas writes of a column of integers with a gap is one of floats."""
    table = pd.DataFrame({"text": list("abcdef"), "label": [0, 1, 0, None, 1, 0]})
    path = home / f"rows.{kind}"
    if kind == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        (table.to_csv if kind == "csv" else table.to_parquet)(path, index=False)
    model = load(home, dataset={"path": str(path), "classes": [0, 1]})["models"]["M"]
    with pytest.raises(UserError, match=f"rows.{kind}, row 3: the label is missing"):
        make_dataset(model["dataset"], model["checkpoint"], model["rows"], tmp_path)
