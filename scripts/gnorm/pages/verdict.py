"""The verdict as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from gnorm.published.claims import NEAR, SOURCES
from gnorm.published.evidence import RUN_POINTS
from gnorm.published.facts import HIGH, ORDER
from gnorm.published.verdict import STATUSES
from gnorm.shown import in_markdown, markdown_table
from gnorm.statistics.intervals import FAILS, FEWEST, HOLDS, UNDECIDED

TITLES = {"Claims": "claims of the paper", "Sentinel-AI": "claims of Sentinel-AI"}
MARKS = {HOLDS: "holds", FAILS: "**does not hold**", UNDECIDED: "?"}
DECIMALS = {"effect": 1, "low": 1, "high": 1}


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """The table as text: effects and intervals with a decimal, nothing where there is nothing."""
    shown = table.astype(object)
    for column, places in DECIMALS.items():
        shown[column] = [f"{value:+.{places}f}" if pd.notna(value) else "" for value in table[column]]
    return shown.where(shown.notna(), "")


def tallies(table: pd.DataFrame) -> list[tuple[str, str]]:
    """List (what, how many of each status) of each part."""
    found = []
    for part, of_part in table.groupby("part", sort=False)["status"]:
        counts = of_part.value_counts()
        tally = ", ".join(f"{counts[status]} {status}" for status in STATUSES if status in counts)
        found.append((TITLES.get(part, f"{part} of the paper"), tally))
    return found


def marks(claims: pd.DataFrame) -> pd.DataFrame:
    """A table of claims and models."""
    marked = claims.assign(mark=claims["status"].map(MARKS).fillna("-"))
    return marked.pivot_table(index="item", columns="model", values="mark", aggfunc="first", sort=False).fillna("")


def markdown(
    table: pd.DataFrame, of_run: bool, suite: str, level: float, warnings: Sequence[tuple[str, str]] = ()
) -> str:
    """Write the page: warnings, the claims that hold or not, then every item."""
    whose = f"this run of the suite `{suite}`" if of_run else "the authors' published files"
    lines = ["# Verdict\n", *(f"**{in_markdown(title)} {warning}**\n" for title, warning in warnings)]
    lines += [f"What {whose} {'says' if of_run else 'say'}:\n"]
    lines += [*(f"- {what}: {tally}" for what, tally in tallies(table)), ""]
    for part, claims in SOURCES.items():
        own = table[table["part"] == part]
        if own.empty:
            continue
        whose = "" if part == "Claims" else f" What {part} says of head pruning, decided on its own criteria:"
        lines.append(f"Does it hold? (- : no data, ? : data that do not decide){whose}\n")
        pivot = marks(own).reset_index()
        lines += [markdown_table(pivot, own=pivot.columns), ""]
        lines += ["What decides:\n", *(f"- {claim.says}: {claim.by}" for claim in claims), ""]
    lines += [
        "`effect` says how far the data are above what the claim asks for, in points of accuracy, with its "
        f"{level:.0%} interval from `low` to `high`. A claim holds if the interval is above zero, does not hold if it "
        "is below, and is undecided if it covers zero. `it takes` says how many rows, random trials or runs would tell "
        "an effect as "
        f"large, four times of five. Runs are averaged; with fewer than {FEWEST} the interval is about rows and trials "
        f"within these runs, and no run may contradict; with {FEWEST} or more runs are resampled too. `rows` are those "
        "that decide. Of published files only the curves are known, not which rows were right: their intervals are the "
        "widest that the counts allow, and there is none where the number of rows is not known.\n",
        f"Tolerances: accuracies of the published files to the printed digits, of a run of one's own {RUN_POINTS:g} "
        f"point; sizes and parameters to the printed digits. `Near-original` is within {100 * NEAR:g} point; an order "
        f"is kept from Kendall's tau {ORDER:g}; high levels are above {HIGH:.0%} pruned. Sizes and parameters are "
        "computed from the architecture and the paper's masks, without weights.\n",
        "## Every item\n",
        markdown_table(readable(table), own={*table.columns} - {"model"}),
        "",
    ]
    return "\n".join(lines)
