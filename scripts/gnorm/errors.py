"""Mistakes that a user can correct, and their messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# What a terminal would obey instead of showing it, and letters that hide or turn around what stands beside them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """Text for a terminal or a log: control characters are written out, as \\x1b, but for tabs and ends of lines."""
    return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text)


class UserError(Exception):
    """A mistake the user can correct: shown as one line, without a traceback."""

    def __init__(self, message: str):
        super().__init__(re.sub(r"\s*\n\s*", " ", printable(message)))


def unknown(given: object, allowed: Iterable, kind: str) -> str:
    """Name an unknown value, the nearest allowed one and all allowed ones; follows "there is no"."""
    names = ["null" if name is None else str(name) for name in allowed]  # as it is written in YAML
    near = difflib.get_close_matches(str(given), names, 1, 0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{kind} {given!r}; {hint}allowed: {', '.join(names)}"
