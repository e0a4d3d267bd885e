"""Sources: what each has, how the schema and the modules agree, and the one form in which jobs get entries."""

import ast
import inspect
import os
import re
import subprocess
import sys
import time

import pytest
import yaml
from support import ROOT

from gnorm import imports
from gnorm.data import origins, sources
from gnorm.data.origins import Origin
from gnorm.errors import UserError
from gnorm.settings import suites as settings

SCHEMA = settings._schema(ROOT, "suite")["properties"]["models"]["additionalProperties"]["properties"]


def alternatives(section):
    """The schema of each source's entries, by source; of checkpoints those that can be fine-tuned too."""
    options = SCHEMA[section]["oneOf"]
    return {option["properties"]["source"]["const"]: option["properties"] for option in options}


SECTIONS = {section: alternatives(section) for section in origins.FETCHED}


def test_every_source_of_the_schema_has_a_module_and_every_module_is_in_the_schema():
    assert sorted({name for by_source in SECTIONS.values() for name in by_source}) == sources.names()
    finetune = SECTIONS["checkpoint"]["finetune"]["from"]["oneOf"]
    assert {option["properties"]["source"]["const"] for option in finetune} == {"local", "hub", "package"}


@pytest.mark.parametrize("section,name", [(s, name) for s, by_source in SECTIONS.items() for name in by_source])
def test_a_source_has_what_its_section_needs(section, name):
    source, keys = sources.load(name), SECTIONS[section][name]
    if hasattr(source, "LOCATION"):
        others = {key for by_source in SECTIONS.values() for key in by_source.get(name, {})}
        assert {*source.LOCATION} <= others and {*source.LOCATION} & {*keys}
        fetch = source.fetch_dataset if section == "dataset" else source.fetch_model
        assert list(inspect.signature(fetch).parameters) == ["entry", "path", "mirror", "archive"]
        # What is left of the entry is one that the local source takes.
        left = keys.keys() - {*source.LOCATION, "source"}
        assert left <= SECTIONS[section][origins.FETCHED[section]].keys()
    elif section == "dataset":
        assert list(inspect.signature(source.rows).parameters) == ["entry", "counts", "seed"]
    else:
        assert "path" in keys or "epochs" in keys


HUB = {"source": "hub", "id": "a/b", "revision": "main"}
COLUMNS = {"text": "t", "pair": None, "label": "l", "classes": ["x", "y"], "unscored": [], "order": "as_is"}
ARCHIVE = {"package": "p", "version": "1", "kind": "wheel", "sha256": "0" * 64}
PACKAGE = {"source": "package", **ARCHIVE, "archive": None, "member": "m.csv"}
RATES = {"epochs": 3, "batch": 32, "rate": 0.1, "dropout": 0.1}


@pytest.mark.parametrize(
    "section,entry,at_hand,location",
    [
        ("dataset", {"source": "generated", "corpus": "letters"}, {"source": "generated", "corpus": "letters"}, None),
        ("dataset", {"source": "file", "path": "a", **COLUMNS}, {"source": "file", "path": "a", **COLUMNS}, None),
        (
            "dataset",
            HUB | {"config": None, "split": "dev"} | COLUMNS,
            {"source": "file", "path": "here", **COLUMNS},
            HUB | {"config": None, "split": "dev"},
        ),
        (
            "dataset",
            PACKAGE | {"columns": ["t", "l"], "separator": ","} | COLUMNS,
            {"source": "file", "path": "here", **COLUMNS},
            PACKAGE | {"columns": ["t", "l"], "separator": ","},
        ),
        ("checkpoint", {"source": "local", "path": "a"}, {"source": "local", "path": "a"}, None),
        ("checkpoint", HUB | {"prune_by": "query"}, {"source": "local", "path": "here", "prune_by": "query"}, HUB),
        ("checkpoint", PACKAGE, {"source": "local", "path": "here"}, PACKAGE),
        (
            "checkpoint",
            {"source": "train", "family": "bert", "layers": 2, "length": 9, "epochs": 1},
            {"source": "train", "family": "bert", "layers": 2, "length": 9, "epochs": 1},
            None,
        ),
        (
            "checkpoint",
            {"source": "finetune", "from": {"source": "local", "path": "a", "prune_by": "query"}, **RATES},
            {"source": "local", "path": "a", "prune_by": "query", **RATES},
            None,
        ),
        (
            "checkpoint",
            {"source": "finetune", "from": HUB, **RATES},
            {"source": "local", "path": "here", **RATES},
            HUB,
        ),
    ],
)
def test_jobs_get_entries_in_one_form(section, entry, at_hand, location, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    origin = Origin(section, entry, "here")
    assert origin.at_hand == at_hand
    assert origin.fetched == (location is not None)
    if origin.fetched:
        assert origin.location == location and origin.inputs == ["here"]
    assert origin.of_tokenizer == {k: v for k, v in at_hand.items() if k in ("path", "family", "length")}
    archives = {"p-1.wheel": ARCHIVE} if entry.get("source") == "package" else {}
    assert origin.archives == archives


def test_files_on_this_machine_are_inputs(tmp_path):
    (tmp_path / "model/deep").mkdir(parents=True)
    for name in ("config.json", "deep/x"):
        (tmp_path / "model" / name).touch()
    model = str(tmp_path / "model")
    assert Origin("checkpoint", {"source": "local", "path": model}, "").inputs == [
        f"{model}/config.json",
        f"{model}/deep/x",
    ]
    tuned = {"source": "finetune", "from": {"source": "local", "path": model}}
    assert len(Origin("checkpoint", tuned, "").inputs) == 2
    assert Origin("dataset", {"source": "file", "path": "a.csv"}, "").inputs == ["a.csv"]
    assert Origin("dataset", {"source": "generated", "corpus": "letters"}, "").inputs == []


def test_what_is_not_there_is_said_before_anything_runs(tmp_path):
    dataset = {"source": "generated", "corpus": "finance"}
    model = {"task": "classification", "dataset": dataset, "rows": {"train": 1}}
    for checkpoint, said in (
        ({"source": "local", "path": str(tmp_path)}, "checkpoint.path: .* holds no model saved by save_pretrained"),
        ({"source": "local", "path": ""}, "checkpoint.path: '' is no path"),
        ({"source": "finetune", "from": {"source": "local", "path": str(tmp_path)}}, "checkpoint.from.path: .* holds"),
    ):
        with pytest.raises(UserError, match=f"^suite: models.M.{said}"):
            origins.check(model | {"checkpoint": checkpoint}, "suite: models.M")
    model |= {"checkpoint": HUB}
    for path, said in (
        (f"{tmp_path}/no.csv", "there is no file"),
        (str(tmp_path), "there is no file"),
        ("\n", "is no"),
    ):
        with pytest.raises(UserError, match=f"^suite: models.M.dataset.path: .*{said}"):
            origins.check(model | {"dataset": {"source": "file", "path": path}}, "suite: models.M")
    origins.check(model, "suite: models.M")


@pytest.mark.fault("a path of the suite is too long, or a link to itself", "refused with one line while planning")
def test_paths_that_cannot_be_looked_at(tmp_path, record_property):
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    wrong = (f"{'x' * 256}.csv", f"{tmp_path}/{'y/' * 3000}rows.csv", f"{tmp_path}/loop.csv")
    for path in wrong:
        for section, entry in (("dataset", {"source": "file"}), ("checkpoint", {"source": "local"})):
            model = {"task": "classification", "dataset": {"source": "generated", "corpus": "finance"}, "rows": {}}
            model |= {"checkpoint": HUB} | {section: entry | {"path": path}}
            with pytest.raises(
                UserError, match=f"^suite: models.M.{section}.* cannot be read [(].*[)]: name"
            ) as caught:
                origins.check(model, "suite: models.M")
            assert "\n" not in str(caught.value)
    record_property("tried", 2 * len(wrong))


def test_the_advice_on_a_date_can_be_pasted(tmp_path):
    path = tmp_path / "my rows; a'b.csv"
    path.write_text("text,label\n")
    os.utime(path, (0, time.time() + 9999))
    with pytest.raises(UserError) as caught:
        sources.check_dates([str(path)], "here")
    advice = re.search("`(.*)`", str(caught.value))[1]
    subprocess.run(advice, shell=True, check=True)
    sources.check_dates([str(path)], "here")


def modules_of(script, *names):
    named = [imports.PACKAGE.joinpath(*name.split(".")).with_suffix(".py") for name in names]
    files = {*imports.closure(ROOT / "scripts" / f"{script}.py", *named), *named}
    return {path.relative_to(imports.PACKAGE).with_suffix("").as_posix() for path in files}


def test_a_job_depends_on_its_own_source_alone():
    generated = Origin("dataset", {"source": "generated", "corpus": "finance"}, "")
    from_hub = Origin("dataset", HUB | {"config": None, "split": "dev"} | COLUMNS, "here")
    drawn = modules_of("make_dataset", *generated.read_by)
    assert {"data/sources/generated", "data/corpora/finance"} <= drawn
    read = modules_of("make_dataset", *from_hub.read_by)
    assert {"data/sources/file", "data/records"} <= read
    for files, own in ((drawn, "generated"), (read, "file")):
        others = {f"data/sources/{name}" for name in sources.names() if name != own}
        assert not files & (others | {"data/archives", "data/saved", "data/origins"})
    assert not any(
        name.startswith("data/corpora/") and name != "data/corpora/finance"
        for name in drawn - {"data/corpora/__init__"}
    )
    fetched = modules_of("fetch_dataset", *from_hub.fetched_by)
    assert "data/sources/hub" in fetched and not fetched & {"data/sources/file", "data/archives", "data/origins"}
    assert "data/sources/hub" not in modules_of("fetch_model", *Origin("checkpoint", PACKAGE, "").fetched_by)
    assert "data/records" not in modules_of("fetch_package")
    assert not {f"data/sources/{name}" for name in sources.names()} & modules_of("make_checkpoint")


def test_the_snakefile_imports_no_library_for_them():
    program = """
import sys
import time
sys.path.insert(0, "scripts")
from gnorm.data import origins, sources
from gnorm.settings import suites
for name in sources.names():
    sources.load(name)
for suite in ("smoke", "mini", "paper"):
    suites.load({"suite": suite, "strategies": {"greedy_gnorm": {"score": "gnorm"}}}, suites.Path("."))
heavy = {"torch", "transformers", "tokenizers", "datasets", "huggingface_hub", "requests", "pyarrow", "numpy", "httpx"}
heavy |= {"unearth", "httpx2"}
print(sorted(heavy & set(sys.modules)))
"""
    made = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert made.stdout.strip() == "[]", made.stderr[-2000:]


ALLOWED = ("scripts/gnorm/data/sources/",)


def test_nothing_else_asks_which_source_an_entry_has():
    """Comparisons of a `source` with a name."""
    asked = []
    for path in sorted((ROOT / "scripts").rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())) if not where.startswith(ALLOWED) else ():
            if isinstance(node, ast.Compare):
                names = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                if "source" in names and names & {*sources.names()}:
                    asked.append(f"{where}:{node.lineno}")
    for path in (ROOT / "Snakefile", *sorted((ROOT / "rules").glob("*.smk"))):
        asked += re.findall(r".*\"source\"\] *(?:==|!=|in|not in)\b.*", path.read_text())
    assert not asked


def test_the_keys_of_shipped_suites_are_checked():
    """Every suite of the repository goes through `origins`, and its entries come out complete."""
    for path in sorted((ROOT / "suites").glob("*.yaml")):
        suite = settings.check(yaml.safe_load(path.read_text()), settings._schema(ROOT, "suite"), path.name)
        origins.check_together(suite["models"], path.name)
        for name, model in suite["models"].items():
            origins.check(model, f"{path.name}: models.{name}")
            for section in origins.FETCHED:
                at_hand = Origin(section, model[section], "here").at_hand
                assert at_hand["source"] in ("generated", "file", "local", "train") and "from" not in at_hand
