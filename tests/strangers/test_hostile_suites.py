"""Suites that strangers wrote: YAML that does harm, and names that a shell, a path or a template takes for more."""

import re
import subprocess
import sys
import time

import pandas as pd
import pytest
import yaml
from support import ROOT, copy_workflow, snakemake

from gnorm.data.rows import read
from gnorm.errors import UserError
from gnorm.settings import suites

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())


@pytest.fixture
def root(tmp_path):
    """As much of the workflow as reading a suite needs."""
    for name in ("schemas", "scripts"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "suites").mkdir()
    return tmp_path


def nested(first: str, more: str) -> str:
    """Nine levels, each of nine times the one before."""
    lines = [f"a: &a {first}"]
    for before, name in zip("abcdefghi", "bcdefghij", strict=True):
        lines.append(f"{name}: &{name} {more.replace('X', f'*{before}')}")
    return "\n".join(lines)


NINE = ", ".join("X" * 9)
BOMBS = {
    "lists": nested("[1, 2, 3]", f"[{NINE}]"),
    "mappings": nested("{k: 1}", "{" + ", ".join(f"k{i}: X" for i in range(9)) + "}"),
    "merged mappings": nested("{k: 1}", f"{{<<: [{NINE}]}}"),
    "keys": nested("[1]", "{? [X, X] : X, ? [X] : X, b: X, c: X, d: X, e: X, f: X}"),
    "a long text": f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 1_000)}]",
    "models": "a: &a {title: x}\n" + nested("{m: 1}", f"[{NINE}]") + "\nmodels: {BERT: *j}",
}


@pytest.mark.stranger(
    "a suite is a YAML bomb: 300 bytes whose aliases stand for billions of values",
    "refused before anything is built of it, in less than a second",
)
def test_anchor_bombs(root, record_property):
    for what, content in BOMBS.items():
        (root / "suites/mine.yaml").write_text(content)
        began = time.monotonic()
        with pytest.raises(UserError, match=r"^mine.yaml: it would be more than 5,000,000 characters long"):
            suites.load(CONFIG | {"suite": "mine"}, root)
        assert time.monotonic() - began < 5, what
    record_property("tried", len(BOMBS))


def test_aliases_are_still_there_to_be_used(root):
    suite = yaml.safe_load((ROOT / "suites/smoke.yaml").read_text())
    model = next(iter(suite["models"].values()))
    (root / "suites/mine.yaml").write_text(
        yaml.safe_dump({"models": {f"M{chr(97 + i)}": model | {"title": f"Title {i}"} for i in range(20)}})
    )
    assert "*id0" in (root / "suites/mine.yaml").read_text()
    assert len(suites.load(CONFIG | {"suite": "mine"}, root)["models"]) == 20


DEEP = {
    "lists": "[" * 100_000,
    "mappings": "{a: " * 100_000,
    "lists that end": "[" * 100_000 + "]" * 100_000,
    "lines": "\n".join("- " * i + "a" for i in (1, 5000)),
    "keys": "? " * 50_000,
}
READ = """
import sys
from pathlib import Path
from gnorm.errors import UserError
from gnorm.settings import suites
for path in sys.argv[1:]:
    try:
        suites._read(Path(path))
    except UserError as error:
        print(error)
"""


@pytest.mark.stranger(
    "a suite nests 100,000 lists or mappings, which crashes the library that builds values of them",
    "refused with one line; the process lives",
)
def test_endless_nesting(tmp_path, record_property):
    paths = []
    for i, content in enumerate(DEEP.values()):
        paths.append(str(tmp_path / f"s{i}.yaml"))
        (tmp_path / f"s{i}.yaml").write_text(content)
    made = subprocess.run(
        [sys.executable, "-c", READ, *paths], capture_output=True, text=True, cwd=ROOT / "scripts", timeout=100
    )
    assert made.returncode == 0 and not made.stderr, made.stderr[-2000:]
    lines = made.stdout.splitlines()
    assert len(lines) == len(DEEP) and all("lie more than 100 deep in each other" in line for line in lines), lines
    record_property("tried", len(DEEP))


@pytest.mark.stranger(
    "a suite has tags that make Python objects, call functions, or import modules", "refused; nothing runs"
)
def test_tags(root, record_property):
    ran = root / "ran"
    tags = [
        f"!!python/object/apply:os.mkdir ['{ran}']",
        f"!!python/object/new:os.mkdir ['{ran}']",
        "!!python/name:os.system",
        "!!python/module:antigravity",
        "!!python/tuple [1]",
        "!<tag:yaml.org,2002:python/object/apply:os.getcwd> []",
        "!include /etc/hostname",
        "!ENV ${HOME}",
    ]
    for tag in tags:
        (root / "suites/mine.yaml").write_text(f"models: {tag}\n")
        with pytest.raises(UserError, match="mine.yaml is not valid YAML: could not determine a constructor") as caught:
            suites.load(CONFIG | {"suite": "mine"}, root)
        assert "\n" not in str(caught.value)
    assert not ran.exists()
    record_property("tried", len(tags))


EVIL = ["a; touch ran", "$(touch ran)", "`touch ran`", "a' && touch ran '", 'a" | touch ran "', "{wildcards}", "{x!r}",
        "%s%n", "a\nb: c", "../../x", "<script>", "*", "~", "\u202e"]  # fmt: skip


@pytest.mark.stranger(
    "a model, strategy or table has a name for a shell, a path or a template: `; touch x`, `$(x)`, `{x}`, quotes",
    "refused while planning: a name has letters, digits, _ and -",
)
def test_names_that_are_more(root, record_property):
    smoke = yaml.safe_load((ROOT / "suites/smoke.yaml").read_text())
    for name in EVIL:
        for config, suite in (
            ({}, {"models": {name: smoke["models"]["BERT"]}}),
            ({}, smoke | {"strategies": {name: {"score": "gnorm"}}}),
            ({"tables": [name]}, smoke),
            ({"suite": name}, smoke),
        ):
            (root / "suites/mine.yaml").write_text(yaml.safe_dump(suite))
            with pytest.raises(UserError) as caught:
                suites.load(CONFIG | {"suite": "mine"} | config, root)
            assert "\n" not in str(caught.value)
    record_property("tried", 4 * len(EVIL))


def test_no_pattern_lets_a_line_end_pass():
    """`$` also stands before the end of the last line: a name that becomes a path may not have one."""
    text = "".join(path.read_text() for path in (ROOT / "schemas").glob("*.yaml"))
    assert "pattern: " in text and not re.findall(r"pattern: .*\$['\"]?$", text, re.M)


@pytest.mark.stranger(
    "paths, columns, classes and texts hold quotes, newlines, `;`, `$(x)`, `%s` and markup",
    "they are data: rows and classes are kept as they are, no shell sees them",
)
def test_texts_that_are_more(tmp_path, record_property):
    tree = copy_workflow(tmp_path / "tree")
    folder = tmp_path / "a; touch ran; $(touch ran) 'b' \"c\" `touch ran` & %s"
    folder.mkdir()
    text, label = "te;xt $(touch ran)", "la'b\"el {x}"
    classes = ["<script>alert(1)</script>", "a;b'\"`touch ran`\n{wildcards.model} %s \\input{x}"]
    texts = [*EVIL, "=1+1", "@x", "\\write18{touch ran}"]
    rows = pd.DataFrame(
        {text: [f"{t} {i}" for i, t in enumerate(texts * 3)], label: (classes * len(texts) * 2)[: 3 * len(texts)]}
    )
    rows.to_parquet(folder / "rows.parquet")
    suite = yaml.safe_load((ROOT / "suites/smoke.yaml").read_text())
    model = suite["models"]["BERT"]
    model["dataset"] = {"source": "file", "path": str(folder / "rows.parquet"), "text": text, "label": label}
    model["dataset"] |= {"classes": classes, "order": "as_is"}
    model["rows"] = {"train": 20, "calibration": 4, "evaluation": 10}
    (tree / "suites/mine.yaml").write_text(yaml.safe_dump({"models": {"BERT": model}}))
    made = snakemake(tree, "--config", "suite=mine", "--", "datasets")
    assert made.returncode == 0, made.stderr[-3000:]
    dataset = tree / "results/mine/BERT/dataset"
    kept = {
        row["text"]: row["label_name"]
        for which in ("train", "calibration", "evaluation")
        for row in read(dataset, which)
    }
    assert kept.items() <= dict(zip(rows[text], rows[label], strict=True)).items() and len(kept) == 34
    assert not list(tmp_path.rglob("ran")), "a shell has seen it"
    record_property("tried", len(texts) + len(classes) + 3)
