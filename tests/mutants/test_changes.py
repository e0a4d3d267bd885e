"""The changes that `make test-mutants` makes."""

import ast

import changes
import pytest
import run
from support import run_python

MADE = {
    "f(a < b)": ["pass", "f(a <= b)"],
    "x = a + b": ["x = a - b"],
    "x += y": ["x -= y", "x = y", "pass"],
    "x = -a[1]": ["x = a[1]", "x = -a[2]", "x = -a[0]"],
    "x = 0.5": ["x = 1.5"],
    "x = a and (not b)": ["x = a or not b", "x = a and b"],
    "if a:\n    pass": ["if True:\n    pass", "if False:\n    pass"],
    "while a:\n    break": ["while False:\n    break", "while a:\n    continue"],
    "x = a if b else c": ["x = a", "x = c"],
    "x = [a for a in b if c]": ["x = [a for a in b]"],
    "x = a[b:c]": ["x = a[:c]", "x = a[b:]"],
    "x = min(a, b)": ["x = max(a, b)"],
    "x = a.abs()": ["x = a"],
    "a.clear()": ["pass"],
    "x = a.sum(keepdim=True)": ["x = a.sum()", "x = a.sum(keepdim=False)"],
    "x = a.get(b, c)": ["x = a.get(b)"],
    "a.x = b": ["pass"],
    "raise E('1')": ["pass"],
    "with a, b as c:\n    x": ["with b as c:\n    x"],
    "with a:\n    x": ["if True:\n    x"],
}
NOTHING = """
'1 < 2'
import a
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import b
Slot = tuple[int, int]
def f(x: list[a < b]) -> c + d:
    '''1 + 1'''
    log.info('%d', 1 + 1)
    if x > 1:
        log.info('%d', 1 + 1)
    torch.cuda.empty_cache()
    y = torch.zeros(dtype=x, device=y, strict=True).cpu()
    z = f'{1 + 1}'
"""


@pytest.mark.parametrize("source", MADE)
def test_what_becomes_of_a_line(source):
    made = [ast.unparse(changes.apply(mutant, source)) for mutant in changes.mutants("m", source)]
    assert made == MADE[source]


def test_what_no_number_can_show_stays():
    (only,) = changes.mutants("m", NOTHING)
    assert only.after == "torch.ones(dtype=x, device=y, strict=True)"


def test_lines_stay_and_keys_tell_mutants_apart():
    source = "def f(a=1):\n\n    b = a + a + a\n    if (b\n        > 1):\n        return b\n"
    found = changes.mutants("m", source)
    assert len({mutant.key for mutant in found}) == len(found)
    assert {mutant.lines for mutant in found} == {(1, 6), (3, 3), (4, 5)}
    for mutant in found:
        (function,) = changes.apply(mutant, source).body
        assert [statement.lineno for statement in function.body] == [3, 4]


def test_a_change_elsewhere_draws_the_same():
    source = "\n".join(f"x{i} = a + b" for i in range(50))
    few, more = (run.draw(changes.mutants("m", text), 10, 1) for text in (source, f"y = a - b\n{source}"))
    assert len({mutant.key for mutant in few} & {mutant.key for mutant in more}) >= 9
    assert run.draw(changes.mutants("m", source), 10, 2) != few


IMPORTED = """
import sys
sys.path.insert(0, "tests/mutants")
import run
path = run.subjects()["gnorm.statistics.curves"]
wanted = next(m for m in run.all_mutants() if m.place == "megabytes" and m.before == "4" and m.after == "5")
sys.meta_path.insert(0, run.mutated(wanted))
from gnorm.statistics import curves
assert (curves.megabytes(2**20), curves.area([0, 1], [1, 1]), curves.__file__) == (5, 1, str(path))
"""


def test_the_mutant_is_imported_in_place_of_its_module():
    made = run_python(IMPORTED)
    assert made.returncode == 0, made.stderr


NOTED = """
from __future__ import annotations
x = 1
def f(a):
    'text'
    if a:
        return [b
            for b in a]
    elif a is None:
        try:
            g()
        except E:
            raise
    return f.__doc__
class C:
    y = 2
    def h(self):
        def inner():
            return 1
        return inner
"""


def test_every_line_that_runs_is_noted():
    ran = []
    names = {"__runs__": ran.append, "g": list, "E": ValueError}
    exec(compile(changes.noting(NOTED, "__runs__"), "m", "exec"), names)
    assert ran == []
    assert (names["f"](""), ran) == ("text", [6, 9, 14])
    ran.clear()
    assert (names["f"](["b"]), ran) == (["b"], [6, 7])
    ran.clear()
    assert (names["f"](None), ran) == ("text", [6, 9, 10, 11, 14])
    ran.clear()
    assert (names["C"]().h()(), ran) == (1, [18, 20, 19])
