"""Packages as the repository's files name them: what is pinned, and what a module imports."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from pathlib import Path

from support import ROOT

# Modules whose package has another name on the index.
MODULES = {"yaml": "pyyaml", "PIL": "pillow", "sklearn": "scikit-learn"}


def pins(*names: str) -> dict[str, str]:
    """Package -> version of requirements files and those they include; anything but an exact version is a failure."""
    found = {}
    for name in names:
        for line in (ROOT / name).read_text().splitlines():
            line = line.split("#")[0].strip()
            if line.startswith("-r "):
                given = pins(line.removeprefix("-r "))
            elif line:
                given = dict([re.fullmatch(r"([\w.-]+)==([\w.]+)", line).groups()])
            else:
                continue
            assert not given.keys() & found.keys(), f"{given.keys() & found.keys()} is pinned twice"
            found |= given
    return found


# Requirements, and the lock of what they bring, with either version of transformers.
RECIPES = {"5": ("requirements.txt", "constraints.txt"), "4": ("requirements-v4.txt", "constraints-v4.txt")}
BESIDE = ("requirements-nodeps.txt", "requirements-dev.txt")
REQUIREMENTS, LOCK = RECIPES[importlib.metadata.version("transformers").split(".")[0]]  # of what runs the tests
PINS = pins(REQUIREMENTS, *BESIDE)


def third_party(path: Path, inside: bool) -> set[str]:
    """Packages that a file imports, by the package index's names; `inside`: in functions too."""

    def executed(node: ast.AST) -> bool:
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            return False
        return inside or not isinstance(node, ast.FunctionDef)

    found, todo = set(), [ast.parse(path.read_text())]
    while todo:
        node = todo.pop()
        todo += filter(executed, ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    found -= set(sys.stdlib_module_names) | {"gnorm", "snakemake"}
    return {MODULES.get(name, name) for name in found}
