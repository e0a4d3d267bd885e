"""Mistakes that a user can correct, and their messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake the user can correct: shown as one line, without a traceback."""


def unknown(given: object, allowed: Iterable, kind: str) -> str:
    """Name an unknown value, the nearest allowed one and all allowed ones; follows "there is no"."""
    names = [str(name) for name in allowed]
    near = difflib.get_close_matches(str(given), names, 1, 0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{kind} {given!r}; {hint}allowed: {', '.join(names)}"
