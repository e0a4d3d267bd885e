"""Snakemake's report, made safe to open: it puts settings of jobs into scripts and escapes nothing that ends one."""

from __future__ import annotations

import json
import re

# How its template begins each script that holds data, as JSON. No other script of it has an id.
_DATA = re.compile(r'<script id="(?P<name>[\w-]+)">\s*var \w+ = ')


def data_escaped(page: str) -> str:
    """The page with the same data in its scripts, spelt so that none of it can end or open one.

    Where a script's data end is told by JSON's own grammar, not by a search, as they may hold anything.
    """
    parts, place, found = [], 0, []
    while begin := _DATA.search(page, place):
        parts.append(page[place : begin.end()])
        _, place = json.JSONDecoder().raw_decode(page, begin.end())
        parts.append(page[begin.end() : place].replace("<", r"\u003c").replace(">", r"\u003e"))
        found.append(begin["name"])
    parts.append(page[place:])
    if "results" not in found or sum(part.count("<script id=") for part in parts) != len(found):
        raise RuntimeError(f"this version of Snakemake writes another report: its data are {', '.join(found)}")
    return "".join(parts)
