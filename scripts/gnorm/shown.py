"""How text that somebody else wrote is shown: titles, labels, rows and names stay text wherever they stand.

One function for each format. Terminals and logs have theirs in `gnorm.errors`, CSV files in
`gnorm.statistics.columns`, workbooks in `gnorm.pages.workbooks`, figures a setting in `gnorm.figures.style`, and
Snakemake's report `gnorm.pages.reports`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from gnorm.errors import printable

if TYPE_CHECKING:
    import pandas as pd

_ENTITIES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "{": "&#123;",
}  # braces are code where sites are made of Markdown
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    **{letter: rf"\{letter}" for letter in "%_$&#{}"},
    **{letter: f"{{{letter}}}" for letter in "[]*"},  # at the start of a line they would belong to the end of the last
}


def one_line(text: str) -> str:
    """Text as it is, on a line."""
    return printable(re.sub(r"[^\S ]", " ", text))


def in_html(text: str) -> str:
    return html.escape(printable(text))


def marked_up(text: str) -> str:
    """Text of this package for a page: what stands in backticks becomes code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", in_html(text))


def in_markdown(text: str) -> str:
    """Text for a line or a cell of Markdown: no markup, HTML, link or other cell comes of it."""
    text = re.sub(r"[\\`*\[\]|~$]", r"\\\g<0>", one_line(text))
    text = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)  # inside a word it is no markup
    text = re.sub(r"[&<>{]", lambda found: _ENTITIES[found[0]], text)
    return re.sub(r":(?=//)", "&#58;", re.sub(r"(?i)(?<=www)\.", "&#46;", text))  # or it becomes a link by itself


def in_latex(text: str) -> str:
    """Text for a cell or a caption of LaTeX."""
    text = re.sub(r"\s*\n\s*", "\n", printable(text))  # an empty line would end a paragraph
    return "".join(_LATEX.get(letter, letter) for letter in text)


def markdown_table(table: pd.DataFrame, align: Sequence[str] | None = None, own: Collection[str] = ()) -> str:
    """A table in Markdown. Columns of `own` hold Markdown of this package, and are left as they are."""
    shown = table.astype(object)
    for column in table:
        shown[column] = [str(value) if column in own else in_markdown(str(value)) for value in table[column]]
    return shown.rename(columns=in_markdown).to_markdown(index=False, colalign=align, disable_numparse=True)
