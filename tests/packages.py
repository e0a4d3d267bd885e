"""Packages as the repository's files name them: what is pinned, and what a module imports."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from support import ROOT

# Modules whose package has another name on the index.
MODULES = {"yaml": "pyyaml", "PIL": "pillow", "sklearn": "scikit-learn"}


def pins(*names: str) -> dict[str, str]:
    """Package -> version of requirements files; anything but an exact version is a failure."""
    found = {}
    for name in names:
        for line in (ROOT / name).read_text().splitlines():
            line = line.split("#")[0].strip()
            if line and not line.startswith("-r "):
                package, version = re.fullmatch(r"([\w.-]+)==([\w.]+)", line).groups()
                assert package not in found, f"{package} is pinned twice"
                found[package] = version
    return found


PINS = pins("requirements.txt", "requirements-nodeps.txt", "requirements-dev.txt")


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
