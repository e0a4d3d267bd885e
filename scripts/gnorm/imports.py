"""The project's modules that a script or module imports, read from the source without running it."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent


def module_file(name: str) -> Path | None:
    """Find the source of `gnorm...`; None for a name that is no module of this project."""
    parts = name.split(".")
    if parts[0] != PACKAGE.name:
        return None
    base = PACKAGE.joinpath(*parts[1:])
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.exists():
            return path
    return None


def parsed(source: Path) -> ast.Module:
    """Parse a module into its syntax tree.

    Garbage collection is off meanwhile: if a finalizer parsed something too, as a traceback does, Python 3.11 would
    fail with "AST constructor recursion depth mismatch".
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source.read_text(encoding="utf-8"))
    finally:
        if collects:
            gc.enable()


def direct(source: Path) -> frozenset[Path]:
    """The modules of the project that a module itself imports."""
    as_it_is = source.stat()
    return _direct(source, as_it_is.st_mtime_ns, as_it_is.st_size)


@cache  # closures overlap, and every start of the workflow asks for those of all rules
def _direct(source: Path, _written: int, _size: int) -> frozenset[Path]:
    names: set[str] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update([node.module, *(f"{node.module}.{alias.name}" for alias in node.names)])
    # Importing a module runs the packages above it.
    names |= {".".join(name.split(".")[:i]) for name in names for i in range(1, name.count(".") + 1)}
    return frozenset(path for name in names if (path := module_file(name)))


def closure(*sources: Path) -> list[Path]:
    """List every module of the project that `sources` import, directly or not, without `sources` themselves."""
    reached: set[Path] = set()
    todo = list(sources)
    while todo:
        new = direct(todo.pop()) - reached
        reached |= new
        todo += new
    return sorted(reached - set(sources))


def constant(source: Path, name: str, *default):
    """Read the literal assigned to `name` in a module, without importing it."""
    for node in parsed(source).body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", None) == name for t in node.targets):
            return ast.literal_eval(node.value)
    if default:
        return default[0]
    raise KeyError(f"{source} does not set {name}")


def functions(source: Path) -> dict[str, tuple[str, ...]]:
    """List a module's functions with the names of their arguments, without importing it."""
    defined = [node for node in parsed(source).body if isinstance(node, ast.FunctionDef)]
    return {node.name: tuple(a.arg for a in (*node.args.args, *node.args.kwonlyargs)) for node in defined}


def docstring(source: Path) -> str:
    return ast.get_docstring(parsed(source)) or ""
