"""A test is where its subject is: rooms of the package have folders here, scripts have modules in tests/rules."""

import ast

import pytest
from support import ROOT

TESTS = ROOT / "tests"
SCRIPTS = sorted(path.stem for path in (ROOT / "scripts").glob("*.py"))
HELPERS = ("conftest", "oracles", "outcomes", "packages", "standins", "support", "versions")
PUBLISHED = "unit/published/test_published.py", "what it computes is part of the verdict, which is tested as a whole"
SHELL = "suites/test_paper.py", "a few lines; the file it writes is looked at in finished runs"
BENCH = "rules/test_summarize_bench.py", "measured and summarized in one go"
# Script -> the file that tests it, and why it has none of its name.
ELSEWHERE = {
    "collect_published": PUBLISHED,
    "collect_results": ("suites/test_workflow.py", "it joins tables that are tested by themselves"),
    "count_parameters": PUBLISHED,
    "draw_figure": ("suites/test_workflow.py", "it calls figures, which are tested by themselves"),
    "estimate_capacity": ("unit/planning/test_capacity.py", "it shows what the planning says"),
    "export_accuracy": SHELL,
    "export_entropy": SHELL,
    "export_random": SHELL,
    "fetch_dataset": ("unit/data/sources/test_hub.py", "the download itself is the package's"),
    "fetch_model": ("unit/data/sources/test_hub.py", "the download itself is the package's"),
    "make_table": ("suites/test_workflow.py", "it calls tables, which are tested by themselves"),
    "make_workbook": SHELL,
    "mask_neurons": ("gpu/jobs.py", "every job with a model runs there, and its file in tests of neurons"),
    "measure_growth": BENCH,
    "measure_shape": BENCH,
    "measure_suite": BENCH,
    "merge_criteria": ("rules/test_compare_criteria.py", "merged parts are compared with a whole there"),
    "merge_trials": ("faults/test_bad_input.py", "it has nothing but refusals of its own"),
    "random_pruning": ("unit/models/test_neurons.py", "heads and neurons are drawn there through the script"),
    "show_results": ("suites/test_workflow.py", "it prints what is there"),
    "write_report": SHELL,
    "write_verdict": SHELL,
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_has_a_test_of_its_name(script):
    own = TESTS / f"rules/test_{script}.py"
    if script not in ELSEWHERE:
        assert own.exists(), f"write {own.relative_to(ROOT)}"
        return
    assert not own.exists(), f"{script} has a test of its name now: take it out of ELSEWHERE"
    assert script in (TESTS / ELSEWHERE[script][0]).read_text(), f"{ELSEWHERE[script][0]} does not test {script}"


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_a_thin_shell(script):
    """Short, without a class, and its `main` takes about six keywords; those of the Makefile may take its arguments."""
    text = (ROOT / f"scripts/{script}.py").read_text()
    assert text.count("\n") <= 65 and not [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef)]
    (main,) = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "main"] or [None]
    if main and "snakemake." in text:
        assert not main.args.args and len(main.args.kwonlyargs) <= 7


def test_nothing_else_is_listed():
    assert set(ELSEWHERE) <= set(SCRIPTS)
    named = {path.stem.removeprefix("test_") for path in (TESTS / "rules").glob("test_*.py")}
    assert named <= set(SCRIPTS), "tests/rules has a test of no script"


def test_unit_tests_are_in_folders_that_the_package_has():
    rooms = {path.parent.relative_to(TESTS / "unit").as_posix() for path in (TESTS / "unit").rglob("test_*.py")}
    assert all((ROOT / "scripts/gnorm" / room).is_dir() for room in rooms), rooms


def test_names_of_test_modules_are_unique():
    """Or pytest would take one for the other."""
    names = [path.name for path in TESTS.rglob("*.py")]
    assert len(names) == len(set(names))


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_no_test_imports_another():
    """What tests share is in plain modules."""
    modules = {path.stem for path in TESTS.rglob("*.py") if path.stem.startswith("test_")} | {"conftest"}
    for path in TESTS.rglob("*.py"):
        assert not modules & set(imported(path)), path


def test_helpers_hold_no_tests_and_conftest_only_fixtures():
    assert {path.stem for path in TESTS.glob("*.py")} == set(HELPERS)
    for name in HELPERS:
        functions = [n for n in ast.parse((TESTS / f"{name}.py").read_text()).body if isinstance(n, ast.FunctionDef)]
        assert not [f.name for f in functions if f.name.startswith("test_")]
        fixtures = [f.name for f in functions if any("fixture" in ast.unparse(d) for d in f.decorator_list)]
        hooks = [f.name for f in functions if f.name.startswith("pytest_")]
        assert not hooks or name == "outcomes"
        assert fixtures == ([f.name for f in functions] if name == "conftest" else [])
