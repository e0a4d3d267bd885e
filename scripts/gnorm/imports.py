"""Which of this project's modules a script or module imports, read off the source without running it."""

from __future__ import annotations

import ast
import gc
from pathlib import Path

PACKAGE = Path(__file__).parent
PACKAGES = {path.name: path for path in (PACKAGE, PACKAGE.parents[1] / "benchmarks")}


def module_file(name: str) -> Path | None:
    """The source of `gnorm...`, or None for what is not a module of this project."""
    parts = name.split(".")
    if parts[0] not in PACKAGES:
        return None
    base = PACKAGES[parts[0]].joinpath(*parts[1:])
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.exists():
            return path
    return None


def parsed(source: Path) -> ast.Module:
    """A module's syntax tree.

    No garbage is collected meanwhile: if a finalizer parsed something too, as a traceback does, Python 3.11 would
    give up with "AST constructor recursion depth mismatch".
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source.read_text(encoding="utf-8"))
    finally:
        if collects:
            gc.enable()


def direct(source: Path) -> set[Path]:
    names: set[str] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update([node.module, *(f"{node.module}.{alias.name}" for alias in node.names)])
    # Importing a module runs the packages above it.
    names |= {".".join(name.split(".")[:i]) for name in names for i in range(1, name.count(".") + 1)}
    return {path for name in names if (path := module_file(name))}


def closure(*sources: Path) -> list[Path]:
    """Every module of the project that `sources` import, directly or not, themselves left out."""
    found: set[Path] = set()
    todo = list(sources)
    while todo:
        new = direct(todo.pop()) - found
        found |= new
        todo += new
    return sorted(found - set(sources))


def constant(source: Path, name: str, *default):
    """The literal assigned to `name` in a module, without importing it."""
    for node in parsed(source).body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", None) == name for t in node.targets):
            return ast.literal_eval(node.value)
    if default:
        return default[0]
    raise KeyError(f"{source} does not set {name}")


def functions(source: Path) -> dict[str, tuple[str, ...]]:
    """A module's functions with the names of their arguments, without importing it."""
    found = [node for node in parsed(source).body if isinstance(node, ast.FunctionDef)]
    return {node.name: tuple(a.arg for a in (*node.args.args, *node.args.kwonlyargs)) for node in found}


def docstring(source: Path) -> str:
    return ast.get_docstring(parsed(source)) or ""
