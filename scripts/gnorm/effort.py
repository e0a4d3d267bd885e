"""How often each row goes forward and backward through the model for a score; imports nothing heavy.

A criterion says it in `PASSES`: two formulas of its settings and of `slots` and `layers`, how many are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gnorm import imports

NONE = (0, 0)


def passes(formulas: Sequence[str], slots: int, layers: int, settings: Mapping) -> tuple[int, int]:
    if not slots:
        return NONE
    names = {**settings, "slots": slots, "layers": layers}
    forward, backward = (eval(formula, {"__builtins__": {}}, names) for formula in formulas)
    return forward, backward


def of_criterion(name: str, settings: Mapping, slots: int, layers: int) -> tuple[int, int]:
    """Read off the source of a criterion; of a hybrid at most, as its members may share passes."""
    if "members" in settings:
        each = [of_criterion(member, own, slots, layers) for member, own in settings["members"].items()]
        return sum(forward for forward, _ in each), sum(backward for _, backward in each)
    source = imports.PACKAGE / "scores" / f"{name}.py"
    return passes(imports.constant(source, "PASSES"), slots, layers, settings)
