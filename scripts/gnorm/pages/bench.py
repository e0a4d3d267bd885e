"""The benchmark as a page in Markdown."""

from __future__ import annotations

import pandas as pd

from gnorm.shown import in_markdown, markdown_table


def markdown(table: pd.DataFrame, machines: dict[str, str], repeats: int, evaluated: int) -> str:
    """Write one section per part, in the order measured."""
    measured = "\n".join(f"- {what}: {in_markdown(machine)}." for what, machine in machines.items())
    text = [
        "# Benchmark\n",
        f"Measured by `make bench`, medians of at least {repeats} repeats taken by turns; low and high "
        f"are the least and the most. A ratio is that of the same round.\n\n{measured}\n",
        "Models have the paper's shapes with random weights; rows are random tokens with log-normal lengths around "
        "assumed means, as the datasets are not read. XLM-RoBERTa has BERT's encoder: its accuracy and entropy are "
        f"not measured again. Accuracy and entropy are those of {evaluated} rows. What repeats itself is "
        "timed in part and multiplied: of the loops over single sentences 16 rows, from short to long (of a step 8), "
        "of the notebooks' passes, one for each layer and all alike, one. Peak memory is what the work takes beyond "
        "the loaded model.\n",
    ]
    for section, group in table.groupby("section", sort=False):
        shown = group.drop(columns="section").dropna(axis=1, how="all")
        if "reached" in shown:
            shown["reached"] = shown["reached"].map({True: "yes", False: "NO"}).fillna("")
        for column in ("value", "low", "high"):
            if column in shown:
                shown[column] = [number(v) for v in shown[column]]
        shown = shown.fillna("")
        right = ["right" if c in ("value", "low", "high") else "left" for c in shown]
        text += [
            f"## {section.capitalize()}\n",
            markdown_table(shown, right),
            "",
        ]
    return "\n".join(text)


def number(value: float) -> str:
    """Write a number with three digits."""
    if pd.isna(value):
        return ""
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
