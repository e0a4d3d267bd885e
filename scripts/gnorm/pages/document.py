"""A document of headings, text, tables and pictures, as a page that needs no network and as Markdown.

Text is this package's own, and what stands in backticks becomes code. What strangers wrote stands in cells of tables
and in labels of intervals, where it stays text.
"""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from gnorm.shown import in_html, markdown_table, marked_up

STYLE = """
.gnorm { font: 15px/1.5 Georgia, "Times New Roman", serif; color: #222; max-width: 60rem; margin: 2rem auto;
  padding: 0 1.2rem; text-align: left; background: #fff }
.gnorm h1 { font: 700 1.9rem/1.2 sans-serif; margin: 0 0 .3rem }
.gnorm h2 { font: 700 1.35rem/1.3 sans-serif; margin: 2.4rem 0 .6rem; padding-bottom: .2rem;
  border-bottom: 2px solid #0072B2 }
.gnorm h3 { font: 700 1.05rem/1.3 sans-serif; margin: 1.9rem 0 .3rem }
.gnorm p { margin: .5rem 0 } .gnorm li { margin: .25rem 0 }
.gnorm ul { padding-left: 1.4rem; list-style: disc }
.gnorm code { font: .85em monospace; background: #f2f2f2; padding: 0 .2em; overflow-wrap: anywhere }
.gnorm .wide { overflow-x: auto; margin: .7rem 0 1.1rem }
.gnorm table { border-collapse: collapse; font: 13px/1.4 sans-serif; width: 100% }
.gnorm th, .gnorm td { padding: .3rem .6rem; border-bottom: 1px solid #ddd; text-align: left;
  vertical-align: top; overflow-wrap: anywhere }
.gnorm th { border-bottom: 2px solid #555; overflow-wrap: normal }
.gnorm .number { text-align: right; font-variant-numeric: tabular-nums } .gnorm td.number { white-space: nowrap }
.gnorm .status { white-space: nowrap; font-weight: 600 } .gnorm .holds { color: #00694c }
.gnorm .fails { color: #b04200 } .gnorm .open { color: #6b5600 } .gnorm .none { color: #777; font-weight: 400 }
.gnorm td.holds { background: #e3f4ee } .gnorm td.fails { background: #fbe9df } .gnorm td.open
  { background: #fbf4d4 }
.gnorm figure { margin: 1rem 0 1.4rem } .gnorm figcaption { font: 13px/1.45 sans-serif; color: #444 }
.gnorm img { display: block; max-width: 100%; height: auto; border: 1px solid #e2e2e2 }
.gnorm svg { display: block; max-width: 100%; height: auto; font: 12px sans-serif }
@media print { .gnorm { max-width: none; margin: 0; font-size: 11pt }
  .gnorm h2, .gnorm h3 { break-after: avoid } .gnorm figure, .gnorm tr, .gnorm svg
  { break-inside: avoid } .gnorm .wide { overflow: visible } .gnorm td { print-color-adjust: exact } }
"""
# Words that a cell is coloured by.
KINDS = {"holds": "holds", "reproduced": "holds", "does not hold": "fails", "differs": "fails", "undecided": "open"}
KINDS |= {"not run": "none", "not published": "none", "-": "none"}
INK = {"holds": "#00694c", "fails": "#b04200", "open": "#6b5600", "none": "#777"}


@dataclass(frozen=True)
class Heading:
    level: int
    text: str

    def html(self) -> str:
        return f"<h{self.level}>{marked_up(self.text)}</h{self.level}>"

    def markdown(self, folder: Path) -> str:
        return f"{'#' * self.level} {self.text}"


@dataclass(frozen=True)
class Text:
    text: str

    def html(self) -> str:
        return f"<p>{marked_up(self.text)}</p>"

    def markdown(self, folder: Path) -> str:
        return self.text


@dataclass(frozen=True)
class Items:
    items: Sequence[str]

    def html(self) -> str:
        return "<ul>" + "".join(f"<li>{marked_up(item)}</li>" for item in self.items) + "</ul>"

    def markdown(self, folder: Path) -> str:
        return "\n".join(f"- {item}" for item in self.items)


@dataclass(frozen=True)
class Table:
    """Cells that are a status are coloured; columns of `own` hold this package's text, those of `numbers` numbers."""

    table: pd.DataFrame
    own: Collection[str] = ()
    numbers: Collection[str] = ()

    def html(self) -> str:
        head = "".join(f"<th{' class=number' * (c in self.numbers)}>{in_html(str(c))}</th>" for c in self.table)
        rows = ("".join(map(self._cell, self.table, row)) for row in self.table.astype(object).values.tolist())
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'

    def _cell(self, column: str, value: object) -> str:
        kind = KINDS.get(str(value))
        classes = [*(["status", kind] if kind else []), *(["number"] if column in self.numbers else [])]
        shown = (marked_up if column in self.own else in_html)(str(value))
        return f'<td class="{" ".join(classes)}">{shown}</td>' if classes else f"<td>{shown}</td>"

    def markdown(self, folder: Path) -> str:
        align = ["right" if name in self.numbers else "left" for name in self.table]
        return markdown_table(self.table, align, own=self.own)


@dataclass(frozen=True)
class Picture:
    path: str
    caption: str

    def html(self) -> str:
        data = base64.b64encode(Path(self.path).read_bytes()).decode()
        image = f'<img alt="{in_html(Path(self.path).stem)}" src="data:image/png;base64,{data}">'
        return f"<figure>{image}<figcaption>{marked_up(self.caption)}</figcaption></figure>"

    def markdown(self, folder: Path) -> str:
        return f"![{Path(self.path).stem}]({Path(os.path.relpath(self.path, folder)).as_posix()})\n\n{self.caption}"


@dataclass(frozen=True)
class Intervals:
    """Estimates as dots on their intervals, beside a line at zero; NaN where there is no interval."""

    unit: str
    rows: Sequence[tuple[str, str, float, float, float]]  # label, status, value, low, high

    def html(self) -> str:
        width, left, height = 720, 190, 24
        ends = [end for _, _, *values in self.rows for end in (0.0, *values) if not math.isnan(end)]
        low, high = min(ends), max(ends)
        margin = 0.06 * (high - low) or 1.0
        scale = (width - left - 20) / (high - low + 2 * margin)

        def x(value: float) -> str:
            return f"{left + (value - low + margin) * scale:.1f}"

        bottom = height * len(self.rows) + 6
        parts = [f'<line x1="{x(0)}" y1="2" x2="{x(0)}" y2="{bottom}" stroke="#555" stroke-dasharray="3 3"/>']
        for place, (label, status, value, first, last) in enumerate(self.rows):
            y, ink = height * place + 16, INK[KINDS.get(status, "none")]
            parts.append(f'<text x="0" y="{y + 4}">{in_html(label)}</text>')
            if not math.isnan(first):
                line = f'x1="{x(first)}" y1="{y}" x2="{x(last)}" y2="{y}"'
                parts.append(f'<line {line} stroke="{ink}" stroke-width="3"/>')
            parts.append(f'<circle cx="{x(value)}" cy="{y}" r="5" fill="{ink}"/>')
        for value in sorted({round(low, 1) + 0.0, 0.0, round(high, 1) + 0.0}):
            if value == 0 or abs(value) * scale > 40:
                said = f"{value:+g}" if value else "0"
                parts.append(f'<text x="{x(value)}" y="{bottom + 14}" text-anchor="middle">{said}</text>')
        note = f'<text x="0" y="{bottom + 14}" fill="#555">{in_html(self.unit)}</text>'
        return f'<svg viewBox="0 0 {width} {bottom + 20}" role="img">{"".join(parts)}{note}</svg>'

    def markdown(self, folder: Path) -> str:
        return ""


Block = Heading | Text | Items | Table | Picture | Intervals


def html(blocks: Sequence[Block], title: str) -> str:
    """Make a page. Its styles are those of its own part alone, so that it can stand inside another."""
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{in_html(title)}</title>'
    view = '<meta name="viewport" content="width=device-width"></head><body>'
    body = "\n".join(block.html() for block in blocks)
    return f'{head}{view}<style>{STYLE}</style><div class="gnorm">{body}</div></body></html>\n'


def markdown(blocks: Sequence[Block], folder: Path) -> str:
    """Make Markdown for a file in `folder`: pictures are links relative to it."""
    return "\n\n".join(text for block in blocks if (text := block.markdown(folder))) + "\n"
