"""`pip install .` gives the package alone, to any folder; what it is called and needs is said once."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest
from packages import RECIPES, pins, third_party
from packaging.requirements import Requirement
from support import ROOT, copy_workflow

import gnorm
from gnorm import scores

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NEEDED = {requirement.name: requirement for requirement in map(Requirement, PROJECT["project"]["dependencies"])}


def pip(*arguments, **options):
    """Without the index: setuptools is here."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    made = subprocess.run(command, capture_output=True, text=True, **options)
    assert made.returncode == 0, made.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    copy_workflow(folder / "clone")
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, "./clone", cwd=folder)
    (made,) = folder.glob("*.whl")
    return made


def test_the_package_alone_is_in_it(wheel):
    assert wheel.name == f"gnorm-{gnorm.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    info = f"gnorm-{gnorm.__version__}.dist-info"
    modules = {path.relative_to(ROOT / "scripts").as_posix() for path in (ROOT / "scripts/gnorm").rglob("*.py")}
    assert {name for name in names if not name.startswith(info)} == modules
    assert f"{info}/licenses/LICENSE" in names


def test_it_works_in_any_folder(wheel, tmp_path):
    pip("install", "--no-deps", "--no-index", "--target", tmp_path / "here", wheel)
    program = """
import gnorm
from gnorm import scores
from gnorm.data import corpora
from gnorm.models.heads import head_map
assert corpora.draw("finance", 3, 0)
print(gnorm.__file__, *scores.names())
"""
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "here")}
    made = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert made.returncode == 0, made.stderr
    assert made.stdout.split() == [str(tmp_path / "here/gnorm/__init__.py"), *scores.names()]


def test_it_asks_for_what_its_modules_import():
    """TextPruner's metadata asks for a numpy of 2022, so pip cannot be asked for it."""
    modules = (ROOT / "scripts/gnorm").rglob("*.py")
    assert set().union(*(third_party(path, inside=True) for path in modules)) - {"textpruner"} <= set(NEEDED)


@pytest.mark.parametrize("requirements", [requirements for requirements, _ in RECIPES.values()])
@pytest.mark.parametrize("name", NEEDED)
def test_what_the_workflow_runs_on_fits_what_the_package_asks_for(name, requirements):
    assert NEEDED[name].specifier.contains(pins(requirements)[name])
    assert not any(part.operator == "==" for part in NEEDED[name].specifier)


def test_environments_are_never_made_from_its_ranges():
    for name in ("Makefile", "Containerfile", ".ci/run"):
        assert not re.search(r"pip install[^\n]* (-e|--editable|\.)(\s|$)", (ROOT / name).read_text()), name


def test_the_version_stands_once():
    """What else names a version of the project names this one."""
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", gnorm.__version__)
    released = re.findall(r"^## \[?v?(\d[\w.]*)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert released[:1] in ([], [gnorm.__version__])
    for name in ("CITATION.cff", "codemeta.json", ".zenodo.json"):
        if (ROOT / name).exists():
            said = re.findall(r'^\W*version\W+([\d.]+\d)"?,?$', (ROOT / name).read_text(), re.M)
            assert set(said) == {gnorm.__version__}, name


def test_the_licence_names_everyone():
    text = (ROOT / "LICENSE").read_text()
    assert text.startswith("MIT License") and "the Greedy-Gnorm workflow contributors" in text
    assert PROJECT["project"]["license"] == "MIT"
