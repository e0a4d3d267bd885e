"""Small changes of a module's source, one at a time: mutants, which tests should notice.

Left out are changes that no number can show: messages, logs and raised errors, annotations, text, devices and copies
between them.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip
PAIRS = [("min", "max"), ("any", "all"), ("amin", "amax"), ("argmin", "argmax"), ("zeros", "ones"), ("floor", "ceil")]
OTHER_NAME = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])} | {"sorted": "list"}
PLACING = {"cpu", "detach", "to", "numpy", "tolist", "item"}  # methods that change where and what a number is stored in
UNSEEN = {"device", "non_blocking", "dtype", "strict"}  # keywords that change no number
SILENT = {"log", "warnings"}
LONGEST = 90  # letters of a statement in a key


@dataclass(frozen=True)
class Mutant:
    module: str
    place: str  # the function, or the module's top
    statement: str  # its first line
    before: str
    after: str
    lines: tuple[int, int]  # a test that runs one of them may notice the change
    where: tuple[tuple[str, int | None], ...]  # the way from the tree's root to the node
    new: ast.AST
    number: int = 1  # among those that read the same

    @property
    def key(self) -> str:
        again = f" ({self.number})" if self.number > 1 else ""
        return f"{self.module}:{self.place}: {self.before} -> {self.after} in {self.statement}{again}"


def mutants(module: str, source: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its source."""
    tree = ast.parse(source)
    found, seen = [], Counter()
    imported = {
        name.asname or name.name
        for a in ast.walk(tree)
        if isinstance(a, ast.Import | ast.ImportFrom)
        for name in a.names
    }
    for where, node, around in _nodes(tree, (), ()):
        statement = next((a for a in reversed((*around, node)) if isinstance(a, ast.stmt)), node)
        named = [a for a in (*around, node) if isinstance(a, ast.FunctionDef | ast.ClassDef)]
        place = ".".join(a.name for a in named) or "top"
        for new, *texts in alternatives(node):
            before, after = texts or (_line(node), _line(new))
            called = isinstance(node, ast.Call) and new is getattr(node.func, "value", None)
            alone = isinstance(around[-1], ast.Expr) or getattr(new, "id", None) in imported
            if before != after and not (called and alone):  # a method that is left out must leave a value
                text = (module, place, before, after, _short(_line(statement)))
                seen[text] += 1
                found.append(
                    Mutant(
                        module, place, text[4], before, after, _lines(tree, around, statement), where, new, seen[text]
                    )
                )
    return found


def apply(mutant: Mutant, source: str) -> ast.Module:
    """The module's tree with the change in it; lines keep their numbers."""
    tree = ast.parse(source)
    *way, (field, index) = mutant.where
    parent = tree
    for name, at in way:
        parent = getattr(parent, name) if at is None else getattr(parent, name)[at]
    old = getattr(parent, field) if index is None else getattr(parent, field)[index]
    new = ast.copy_location(copy.deepcopy(mutant.new), old)
    if index is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[index] = new
    return ast.fix_missing_locations(tree)


def noting(source: str, name: str) -> ast.Module:
    """The module's tree, in which every statement of a function first calls `name` with its line."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(node): node for function in functions for node in ast.walk(function)}
    for node in inside.values():
        for field in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, field, None), list):
                first = isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None
                for i in range(len(statements) - 1, first - 1, -1):
                    call = ast.parse(f"{name}({statements[i].lineno})").body[0]
                    statements.insert(i, ast.copy_location(call, statements[i]))
    return ast.fix_missing_locations(tree)


def _nodes(node: ast.AST, where, around) -> Iterator[tuple[tuple, ast.AST, tuple]]:
    """Every node that may be changed, with the way to it and the nodes around it."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _left_out(child, around):
                continue
            way = (*where, (field, index))
            yield way, child, (*around, node)
            if not isinstance(child, ast.Raise):  # it may go, but its message does not matter
                yield from _nodes(child, way, (*around, node))


def _left_out(node: ast.AST, around: tuple) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Global | ast.Nonlocal):
        return True
    if isinstance(node, ast.keyword) and node.arg in UNSEEN:
        return True
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if _silent(node) or (isinstance(node, ast.If) and not node.orelse and all(map(_silent, node.body))):
        return True
    if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("torch.cuda."):
        return True
    in_function = any(isinstance(a, ast.FunctionDef) for a in around)
    return isinstance(node, ast.Assign) and not in_function and _is_type(node.value)  # an alias of a type


def _is_type(node: ast.AST) -> bool:
    """Whether a value at a module's top is a type: an alias, or a TypeVar."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return bool(names & {"Callable", "TypeVar", "Mapping"}) or (
        isinstance(node, ast.Subscript | ast.BinOp)
        and bool(names & {"tuple", "Tensor", "Slot", "list", "torch"})
        and not any(isinstance(n, ast.Constant) for n in ast.walk(node))
    )


def _silent(node: ast.AST) -> bool:
    """Whether a statement only says something, or concerns a GPU."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    return _root(node.value.func) in SILENT or ast.unparse(node.value.func).startswith("torch.cuda.")


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _lines(tree: ast.Module, around: tuple, statement: ast.AST) -> tuple[int, int]:
    """The statement's own lines; for a function's head all of its lines, and outside of functions all of the module."""
    if isinstance(statement, ast.FunctionDef):
        return statement.lineno, statement.end_lineno
    if not any(isinstance(a, ast.FunctionDef) for a in around):
        return 1, tree.body[-1].end_lineno
    body = getattr(statement, "body", None)
    return statement.lineno, max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _line(node: ast.AST) -> str:
    """A node as one line of source; of a statement with a body its head."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        node = copy.copy(node)
        node.decorator_list = []
    if isinstance(node, ast.comprehension):
        node = ast.ListComp(elt=ast.Name("..."), generators=[node])
    if isinstance(node, ast.arguments):
        return f"({ast.unparse(node)})"
    text = ast.unparse(node)
    return text.splitlines()[0] if isinstance(node, ast.stmt) else " ".join(text.split())


def alternatives(node: ast.AST) -> Iterator[tuple]:
    """What may stand in a node's place, if need be with words for before and after."""
    for kind, make in CHANGES.items():
        if isinstance(node, kind):
            yield from (new if isinstance(new, tuple) else (new,) for new in make(node))


def _with(node: ast.AST, **fields) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _replaced(values: list, index: int, *new) -> list:
    return [*values[:index], *new, *values[index + 1 :]]


def of_comparison(node: ast.Compare):
    for i, operator in enumerate(node.ops):
        yield _with(node, ops=_replaced(node.ops, i, COMPARED[type(operator)]()))


def of_operation(node: ast.BinOp | ast.AugAssign):
    if type(node.op) in COMPUTED:
        yield _with(node, op=COMPUTED[type(node.op)]())
    if isinstance(node, ast.AugAssign):
        yield ast.Assign([node.target], node.value, lineno=node.lineno)
        yield ast.Pass()


def of_sign(node: ast.UnaryOp):
    if isinstance(node.op, ast.USub | ast.Invert | ast.Not):
        yield node.operand


def of_constant(node: ast.Constant):
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)
        if isinstance(node.value, int) and node.value:
            yield ast.Constant(node.value - 1)


def of_both(node: ast.BoolOp):
    yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())


def of_branch(node: ast.If):
    yield _with(node, test=ast.Constant(True))
    yield _with(node, test=ast.Constant(False))


def of_loop(node: ast.While):
    yield _with(node, test=ast.Constant(False))


def of_choice(node: ast.IfExp):
    yield node.body
    yield node.orelse


def of_comprehension(node: ast.comprehension):
    for i in range(len(node.ifs)):
        yield _with(node, ifs=_replaced(node.ifs, i))


def of_slice(node: ast.Slice):
    for part in ("lower", "upper", "step"):
        if getattr(node, part) is not None:
            yield _with(node, **{part: None})


def of_call(node: ast.Call):
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    if name in OTHER_NAME:
        field = "id" if isinstance(node.func, ast.Name) else "attr"
        yield _with(node, func=_with(node.func, **{field: OTHER_NAME[name]}))
    if isinstance(node.func, ast.Attribute) and not node.args and not node.keywords and name not in PLACING:
        yield node.func.value
    for i, keyword in enumerate(node.keywords):
        if keyword.arg and keyword.arg not in UNSEEN:
            yield _with(node, keywords=_replaced(node.keywords, i)), ast.unparse(keyword), "nothing"
    if name == "get" and len(node.args) == 2:
        yield _with(node, args=node.args[:1])


def of_statement(node: ast.Expr):
    if isinstance(node.value, ast.Call):
        yield ast.Pass()


def of_assignment(node: ast.Assign):
    if not any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets):
        yield ast.Pass()


def of_end(node: ast.Raise | ast.Break | ast.Continue):
    yield {ast.Break: ast.Continue, ast.Continue: ast.Break, ast.Raise: ast.Pass}[type(node)]()


def of_context(node: ast.With):
    """Without one of its contexts, where nothing reads what that gives."""
    for i, item in enumerate(node.items):
        if item.optional_vars is None:
            rest = _replaced(node.items, i)
            yield _with(node, items=rest) if rest else ast.If(ast.Constant(True), node.body, [])


CHANGES = {
    ast.Compare: of_comparison,
    ast.BinOp | ast.AugAssign: of_operation,
    ast.UnaryOp: of_sign,
    ast.Constant: of_constant,
    ast.BoolOp: of_both,
    ast.If: of_branch,
    ast.While: of_loop,
    ast.IfExp: of_choice,
    ast.comprehension: of_comprehension,
    ast.Slice: of_slice,
    ast.Call: of_call,
    ast.Expr: of_statement,
    ast.Assign: of_assignment,
    ast.Raise | ast.Break | ast.Continue: of_end,
    ast.With: of_context,
}
