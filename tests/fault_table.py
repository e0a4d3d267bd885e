"""Fault tests: what each of them injects, what happens then, and how often it was tried.

A test marked `fault(what, outcome)` counts as tried once, or as often as it says with
`record_property("tried", n)`. With `--faults FILE` the table there gets what passed; tests that did not run
keep their lines, tests that are gone lose them. Nothing is written if a test failed or was skipped.
"""

from __future__ import annotations

import ast
from pathlib import Path

NOT_YET = "not yet"
HEADER = """# What may go wrong, and what happens then

Written by `make test-faults`: every line is a test that injects the fault, and how often it did so when it last ran.

| fault | what happens | test | times tried |
|---|---|---|---:|
"""


def pytest_addoption(parser):
    parser.addoption("--faults", help="write the table of fault tests to this file")


def pytest_configure(config):
    if config.getoption("faults") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Table(config.getoption("faults")))


def pytest_itemcollected(item):
    for marker in item.iter_markers("fault"):
        item.user_properties.append(("fault", list(marker.args)))


class Table:
    def __init__(self, path: str):
        self.path, self.tried, self.failed, self.skipped = Path(path), {}, False, []

    def pytest_runtest_logreport(self, report):
        self.failed |= report.failed
        if report.skipped:
            self.skipped.append(report.nodeid)
        if report.when != "call" or not report.passed:
            return
        properties = report.user_properties
        times = sum(value for name, value in properties if name == "tried") or 1
        for what, outcome in (value for name, value in properties if name == "fault"):
            test = report.nodeid.split("[")[0]
            key = (test, what, outcome)
            self.tried[key] = self.tried.get(key, 0) + times

    def pytest_terminal_summary(self, terminalreporter):
        if self.failed or self.skipped or not self.tried:
            terminalreporter.write_line(f"{self.path} is left as it was: fault tests failed or were skipped")
            return
        before = {tuple(key): times for *key, times in listed(self.path)} if self.path.exists() else {}
        known = before | self.tried
        lines = [
            f"| {what} | {outcome} | `{test}` | {known.get((test, what, outcome)) or NOT_YET} |\n"
            for test, what, outcome in marked(Path(__file__).parent)
        ]
        self.path.write_text(HEADER + "".join(lines), encoding="utf-8")
        terminalreporter.write_line(f"{self.path}: {len(lines)} faults, tried {sum(self.tried.values())} times now")


def marked(folder: Path) -> list[tuple[str, str, str]]:
    """(test, what, outcome) of every mark in the test files, read off the source."""
    found = []
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            for call in (call for decorator in node.decorator_list for call in ast.walk(decorator)):
                if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "fault":
                    what, outcome = (ast.literal_eval(argument) for argument in call.args)
                    key = (f"{path.relative_to(folder.parent).as_posix()}::{node.name}", what, outcome)
                    if key not in found:
                        found.append(key)
    return found


def listed(table: Path) -> list[tuple[str, str, str, int]]:
    """(test, what, outcome, times) of every line of a written table."""
    found = []
    for line in table.read_text(encoding="utf-8").splitlines():
        if not line.startswith("| ") or line.startswith("| fault |"):
            continue
        what, outcome, test, times = (cell.strip() for cell in line.strip("|").split("|"))
        found.append((test.strip("`"), what, outcome, 0 if times == NOT_YET else int(times)))
    return found
