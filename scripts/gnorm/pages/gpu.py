"""The page that the check of a GPU writes."""

from __future__ import annotations

from dataclasses import dataclass

from gnorm.shown import in_markdown

PAGE = """# GPU check

{verdict}

| what | found | as it should be |
|---|---|---|
{rows}

Waits are those that torch's `set_sync_debug_mode` reports; it does not see copies from the host that need not wait.

Made by `make check-gpu`{quick}. To report a card, or a line that says **NO**: open an issue and attach this page.
"""


@dataclass(frozen=True)
class Line:
    """The result of one check; `good` is None where nothing can fail."""

    what: str
    found: str
    good: bool | None = None

    @property
    def row(self) -> str:
        good = "" if self.good is None else "yes" if self.good else "**NO**"
        return f"| {self.what} | {in_markdown(self.found)} | {good} |"


def markdown(lines: list[Line], quick: bool) -> str:
    """Write the page, with failed checks named first."""
    bad = [line.what for line in lines if line.good is False]
    verdict = f"Not as it should be: {'; '.join(bad)}." if bad else "Everything is as it should be."
    rows = "\n".join(line.row for line in lines)
    return PAGE.format(verdict=verdict, rows=rows, quick=" in its quick form" if quick else "")
