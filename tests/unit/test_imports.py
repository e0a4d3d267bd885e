"""The guard: what a rule runs again for is the closure of its script's imports, so closures may not grow unseen."""

import json
import subprocess
import sys

from support import ROOT

from gnorm import imports
from gnorm.planning.suite import source

STORED = ROOT / "tests/unit/closures.json"
WITHOUT_A_RULE = {"show_results", "docs_numbers", "estimate_capacity", "check_gpu"}  # the Makefile calls them
SCRIPTS = sorted({path.stem for path in (ROOT / "scripts").glob("*.py")} - WITHOUT_A_RULE)
# Modules that a script loads by name, in folders or alone; each job declares its own.
LOADED = {
    "draw_figure": ("figures",),
    "make_table": ("tables",),
    "prune_heads": ("scores",),
    "compare_criteria": ("scores",),
    "make_dataset": ("data.sources", "data.corpora"),
    "make_checkpoint": ("models.search",),
    "fetch_dataset": ("data.sources",),
    "fetch_model": ("data.sources",),
}


def jobs():
    """A name and the sources of every kind of job; records of families belong to every job with a model."""
    for script in SCRIPTS:
        start = ROOT / "scripts" / f"{script}.py"
        yield script, [start]
        for name in LOADED.get(script, ()):
            folder = source(name).with_suffix("")
            for path in sorted(folder.glob("[!_]*.py")) if folder.is_dir() else [source(name)]:
                yield f"{script} {name}: {path.stem}", [start, path]


def sizes():
    return {name: len(imports.closure(*sources)) for name, sources in jobs()}


def test_no_closure_has_grown():
    """A module more in it is one more whose every change runs the rule again. If it must be, store the new sizes:

    PYTHONPATH=scripts:tests .venv/bin/python tests/unit/test_imports.py
    """
    stored, now = json.loads(STORED.read_text()), sizes()
    assert {name for name in now if " " not in name} <= set(stored), "store the sizes of a new script"
    changed = {name: (size, now.get(name)) for name, size in stored.items() if now.get(name) != size}
    assert not changed, f"grown, or smaller and to be stored (before, now): {changed}"


def test_the_package_itself_imports_nothing():
    """Importing any module runs the `__init__` above it: it belongs to every closure."""
    assert imports.direct(ROOT / "scripts/gnorm/__init__.py") == set()
    loaded = "import sys; before = set(sys.modules); import gnorm; print(set(sys.modules) - before - {'__future__'})"
    made = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT / "scripts", capture_output=True, text=True)
    assert made.stdout.strip() == "{'gnorm'}", made.stderr


def test_no_rule_depends_on_what_is_made_for_people():
    """`gnorm.api` and `gnorm.hf`, the public interface, would make every closure hold nearly everything."""
    for name, sources in jobs():
        names = {path.relative_to(imports.PACKAGE).as_posix() for path in imports.closure(*sources)}
        assert not {"api.py", "hf.py"} & names, name


def test_an_import_inside_a_function_and_parent_packages_count(tmp_path):
    """Else the guard would miss what a job really runs."""
    (tmp_path / "late.py").write_text("def f():\n    from gnorm.scores import gnorm\n")
    closure = {path.relative_to(imports.PACKAGE).as_posix() for path in imports.closure(tmp_path / "late.py")}
    assert {"__init__.py", "scores/__init__.py", "scores/gnorm.py", "engine/passes.py"} <= closure


def test_a_module_that_was_edited_is_read_again(tmp_path):
    for name in ("shown", "logs"):
        (tmp_path / "edited.py").write_text(f"import gnorm.{name}\n")
        assert f"{name}.py" in {path.name for path in imports.closure(tmp_path / "edited.py")}


if __name__ == "__main__":
    STORED.write_text(json.dumps(sizes(), indent=1) + "\n")
    print(f"stored {len(sizes())} closures in {STORED}")
