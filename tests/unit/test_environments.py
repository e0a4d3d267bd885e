"""One source of truth for versions, and conda environments that hold what their rules import.

No conda can be installed here: its environments are read with conda's own grammar, not made.
"""

import asyncio
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from packages import BESIDE, LOCK, PINS, RECIPES, pins, third_party
from rattler import Channel, MatchSpec, SparseRepoData, VirtualPackage, VirtualPackageOverrides
from rattler import solve_with_sparse_repodata as solve
from support import ROOT

from gnorm import imports

ENVS = sorted((ROOT / "envs").glob("*.yaml"))
# Names on conda-forge, and names of modules, that differ from those on the package index.
CONDA = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
# Of conda's documentation on environment files.
SCHEMA = {
    "type": "object",
    "required": ["channels", "dependencies"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "prefix": {"type": "string"},
        "channels": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "variables": {"type": "object", "additionalProperties": {"type": ["string", "number"]}},
        "dependencies": {
            "type": "array",
            "minItems": 1,
            "items": {
                "oneOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "required": ["pip"],
                        "additionalProperties": False,
                        "properties": {"pip": {"type": "array", "items": {"type": "string"}}},
                    },
                ]
            },
        },
    },
}


def specs(path: Path) -> dict[str, MatchSpec]:
    listed = yaml.safe_load(path.read_text())["dependencies"]
    assert all(isinstance(entry, str) for entry in listed), "pip packages go into the post-deploy script"
    found = [MatchSpec(entry, strict=True) for entry in listed]
    return {spec.name.normalized: spec for spec in found}


MAKER = runpy.run_path(str(ROOT / "envs/lock.py"))


def test_what_is_installed_is_what_is_locked():
    """If not: remove the environment and make it again, or `make lock` after a change of requirements."""
    locked, installed = pins(LOCK), MAKER["lock"](MAKER["installed"]())
    assert {name: (locked.get(name), installed.get(name)) for name in locked.keys() ^ installed.keys()} == {}
    assert installed == locked


def test_an_audit_that_has_looked_up_nothing_says_so():
    judged = runpy.run_path(str(ROOT / "envs/audit.py"))["judged"]
    known = [{"name": "a", "version": "1", "vulns": []}]
    unknown = [{"name": "b", "skip_reason": "not found"}]
    advisory = [{"name": "c", "version": "2", "vulns": [{"id": "X-1", "fix_versions": ["3"]}]}]
    assert judged("lock", {"dependencies": known}) == (["lock: 1 versions looked up, 0 advisories"], True)
    for parts, words in (
        (known + advisory, "lock: c 2: X-1, mended in 3"),
        (known + unknown, "NOT AUDITED: 1 of 2 versions in lock (not found)"),
        (unknown, "lock: 0 versions looked up, 0 advisories"),
        ([], "NOT AUDITED: 0 of 0 versions in lock"),
    ):
        lines, good = judged("lock", {"dependencies": parts})
        assert not good and any(line.startswith(words) for line in lines), lines
    lines, good = judged("lock", "no such host")
    assert not good and lines[0].startswith("NOT AUDITED: lock (no such host)")


@pytest.mark.parametrize("requirements,lock", RECIPES.values(), ids=RECIPES)
def test_a_lock_holds_what_is_pinned_and_serves_every_machine(requirements, lock):
    locked = pins(lock)
    assert MAKER["lock"](pins(requirements, *BESIDE)).items() <= locked.items()
    assert MAKER["lock"](locked) == locked and list(locked) == sorted(locked)


def test_the_locks_differ_by_transformers_alone():
    five, four = (pins(lock) for _, lock in RECIPES.values())
    differ = {name for name in five.keys() & four.keys() if five[name] != four[name]}
    assert differ == {"transformers", "tokenizers", "huggingface-hub"}
    assert four.keys() <= five.keys()


def test_a_lock_leaves_builds_and_their_platform_out():
    gpu = {"nvidia-cublas": "13.1", "cuda_bindings": "13.0", "triton": "3.8", "pytorch-triton-rocm": "3.8", "pip": "26"}
    assert MAKER["lock"]({"torch": "2.13.0+cu130", "Jinja2": "3.1", "ruamel.yaml": "1", **gpu}) == {
        "jinja2": "3.1",
        "ruamel-yaml": "1",
        "torch": "2.13.0",
    }


def test_only_textpruner_asks_for_something_else():
    """Its metadata asks for a numpy of 2022, so it is installed without its dependencies; those it imports are here."""
    made = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    (said,) = made.stdout.splitlines()
    assert re.fullmatch(rf"textpruner \S+ has requirement numpy\S+, but you have numpy {PINS['numpy']}\.", said)


@pytest.mark.parametrize("path", ENVS, ids=lambda path: path.stem)
def test_conda_environments_have_the_pinned_versions(path):
    jsonschema.validate(yaml.safe_load(path.read_text()), SCHEMA)
    channels = yaml.safe_load(path.read_text())["channels"]
    assert channels[0] == "conda-forge" and channels[-1] == "nodefaults"
    known = {CONDA.get(name, name): version for name, version in pins("requirements.txt").items()}
    for name, spec in specs(path).items():
        if name == "pip":  # any will do
            continue
        expected = python() if name == "python" else known[name]
        assert str(spec.version).removeprefix("=").removesuffix(".*") == expected, f"{path.name}: {name}"


@pytest.mark.parametrize("cuda,build", [("12.9", "cuda129_py311"), ("", "cpu_py311")])
def test_one_environment_serves_cpu_and_gpu(cuda, build, tmp_path, monkeypatch):
    """Solved for a channel with builds as conda-forge has them: those with CUDA ask for a driver, and rank first."""
    spec = specs(ROOT / "envs/torch.yaml")["pytorch"]
    version = PINS["torch"]
    common = {"name": "pytorch", "version": version, "subdir": "linux-64", "timestamp": 1, "size": 1, "md5": "0" * 32}
    builds = [
        common | {"build": "cpu_py311", "build_number": 0, "depends": []},
        common | {"build": "cuda129_py311", "build_number": 200, "depends": ["__cuda"]},
    ]
    packages = {f"pytorch-{version}-{record['build']}.conda": record for record in builds}
    repodata = {"info": {"subdir": "linux-64"}, "packages": {}, "packages.conda": packages, "repodata_version": 1}
    (tmp_path / "repodata.json").write_text(json.dumps(repodata))
    channel = SparseRepoData(Channel("made-up"), "linux-64", tmp_path / "repodata.json")
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", cuda)
    machine = VirtualPackage.detect(VirtualPackageOverrides.from_env())
    (found,) = asyncio.run(solve([spec], [channel], virtual_packages=machine))
    assert str(found.build) == build


def python() -> str:
    """The version of Python that the Makefile asks for."""
    return ".".join(re.search(r"version_info\[:2\] != \((\d+), (\d+)\)", (ROOT / "Makefile").read_text()).groups())


def test_the_other_recipes_set_no_version_of_their_own():
    container, makefile = ((ROOT / name).read_text() for name in ("Containerfile", "Makefile"))
    for name in ("requirements.txt", "requirements-common.txt", "requirements-nodeps.txt", "constraints.txt"):
        assert name in container and name in makefile
    assert "-r requirements.txt -c constraints.txt" in container
    assert "==" not in container and "==" not in makefile
    assert f"FROM python:{python()}-" in container
    (named,) = re.findall(r"textpruner==(\S+)", (ROOT / "envs/torch.post-deploy.sh").read_text())
    assert named == pins("requirements-nodeps.txt")["textpruner"]


def rules() -> dict[str, tuple[str, str]]:
    """Rule -> its environment and script."""
    text = "".join(path.read_text() for path in sorted((ROOT / "rules").glob("*.smk")))
    blocks = re.split(r"^ *rule\b", text, flags=re.M)[1:]
    found = {}
    for block in blocks:
        env, script = (re.search(rf"\.\./{kind}/(\w+)\.", block) for kind in ("envs", "scripts"))
        assert bool(env) == bool(script), block[:80]
        if script:
            found[script[1]] = (env[1], script[1])
    return found


def sources_with(function: str) -> list[str]:
    """The modules of sources that have a function."""
    paths = (ROOT / "scripts/gnorm/data/sources").glob("[!_]*.py")
    return [f"data/sources/{path.name}" for path in paths if function in imports.functions(path)]


BY_NAME = {  # modules that scripts load by name
    "make_dataset": ["data/corpora/*.py", *sources_with("rows")],
    "fetch_dataset": sources_with("fetch_dataset"),
    "fetch_model": sources_with("fetch_model"),
    "prune_heads": ["scores/*.py"],
    "compare_criteria": ["scores/*.py"],
    "draw_figure": ["figures/*.py"],
    "make_table": ["tables/*.py"],
}


@pytest.mark.parametrize("script", sorted(rules()))
def test_an_environment_holds_what_its_rules_import(script):
    env, _ = rules()[script]
    path = ROOT / "scripts" / f"{script}.py"
    named = {module for names in BY_NAME.get(script, []) for module in (ROOT / "scripts/gnorm").glob(names)}
    modules = imports.closure(path, *named)  # what these import in functions, other scripts may need
    wanted = set().union(*(third_party(file, inside=True) for file in (path, *named)))
    wanted |= set().union(*(third_party(module, inside=False) for module in modules))
    have = set(specs(ROOT / "envs" / f"{env}.yaml"))
    if (ROOT / "envs" / f"{env}.post-deploy.sh").exists():
        have.add("textpruner")
    assert {CONDA.get(name, name) for name in wanted} <= have


def test_every_rule_is_looked_at():
    assert {"prune_heads", "make_dataset", "draw_figure", "write_report", "fetch_model"} <= set(rules())
