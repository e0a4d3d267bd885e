"""Tables of tests: what each of them tries, what happens then, and how often it was tried.

A test marked `fault(what, outcome)` or `stranger(what, outcome)` counts as tried once, or as often as it says with
`record_property("tried", n)`. With `--faults FILE` or `--strangers FILE` the table there gets what passed; tests that
did not run keep their lines, tests that are gone lose them. Nothing is written if a test failed or was skipped.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

NOT_YET = "not yet"


@dataclass(frozen=True)
class Kind:
    """A mark, and the table that its tests make."""

    mark: str
    page: str
    title: str
    said: str  # of the table as a whole
    column: str

    @property
    def option(self) -> str:
        return f"--{self.mark}s"

    @property
    def header(self) -> str:
        top = f"| {self.column} | what happens | test | times tried |\n|---|---|---|---:|\n"
        return f"# {self.title}\n\n{self.said}\n\n{top}"


KINDS = (
    Kind(
        mark="fault",
        page="docs/faults.md",
        title="What may go wrong, and what happens then",
        said="Written by `make test-faults`: every line is a test that injects the fault, and how often it did so when "
        "it last ran.",
        column="fault",
    ),
    Kind(
        mark="stranger",
        page="docs/strangers.md",
        title="What strangers may send, and what happens then",
        said="Written by `make test-strangers`: every line is a test that makes the attempt, and how often it did so "
        "when it last ran. What is promised is in [SECURITY.md](../SECURITY.md).",
        column="attempt",
    ),
)


def pytest_addoption(parser):
    for kind in KINDS:
        parser.addoption(kind.option, help=f"write the table of {kind.mark} tests to this file")


def pytest_configure(config):
    for kind in KINDS:
        if config.getoption(kind.option) and not hasattr(config, "workerinput"):
            config.pluginmanager.register(Table(kind, config.getoption(kind.option)))


def pytest_itemcollected(item):
    for kind in KINDS:
        for marker in item.iter_markers(kind.mark):
            item.user_properties.append((kind.mark, list(marker.args)))


class Table:
    def __init__(self, kind: Kind, path: str):
        self.kind, self.path, self.tried, self.failed, self.skipped = kind, Path(path), {}, False, []

    def pytest_runtest_logreport(self, report):
        self.failed |= report.failed
        if report.skipped:
            self.skipped.append(report.nodeid)
        if report.when != "call" or not report.passed:
            return
        properties = report.user_properties
        times = sum(value for name, value in properties if name == "tried") or 1
        for what, outcome in (value for name, value in properties if name == self.kind.mark):
            test = report.nodeid.split("[")[0]
            key = (test, what, outcome)
            self.tried[key] = self.tried.get(key, 0) + times

    def pytest_terminal_summary(self, terminalreporter):
        if self.failed or self.skipped or not self.tried:
            terminalreporter.write_line(f"{self.path} is left as it was: tests of it failed or were skipped")
            return
        before = {tuple(key): times for *key, times in listed(self.path)} if self.path.exists() else {}
        known = before | self.tried
        lines = [
            f"| {what} | {outcome} | `{test}` | {known.get((test, what, outcome)) or NOT_YET} |\n"
            for test, what, outcome in marked(Path(__file__).parent, self.kind.mark)
        ]
        self.path.write_text(self.kind.header + "".join(lines), encoding="utf-8")
        terminalreporter.write_line(f"{self.path}: {len(lines)} lines, tried {sum(self.tried.values())} times now")


def marked(folder: Path, mark: str) -> list[tuple[str, str, str]]:
    """(test, what, outcome) of every such mark in the test files, read off the source."""
    found = []
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            for call in (call for decorator in node.decorator_list for call in ast.walk(decorator)):
                if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == mark:
                    what, outcome = (ast.literal_eval(argument) for argument in call.args)
                    key = (f"{path.relative_to(folder.parent).as_posix()}::{node.name}", what, outcome)
                    if key not in found:
                        found.append(key)
    return found


def listed(table: Path) -> list[tuple[str, str, str, int]]:
    """(test, what, outcome, times) of every line of a written table."""
    found = []
    for line in table.read_text(encoding="utf-8").splitlines():
        if not line.startswith("| ") or line.endswith("| times tried |"):
            continue
        what, outcome, test, times = (cell.strip() for cell in line.strip("|").split("|"))
        found.append((test.strip("`"), what, outcome, 0 if times == NOT_YET else int(times)))
    return found
