"""The verdict: every number of the paper and every claim, decided by a run and by the published files."""

from __future__ import annotations

import pandas as pd

from gnorm.published import numbers, paper
from gnorm.published.claims import SOURCES
from gnorm.published.deciding import Claim, Found, found
from gnorm.published.evidence import Evidence
from gnorm.statistics.estimates import Missing
from gnorm.statistics.intervals import FAILS, HOLDS, UNDECIDED
from gnorm.statistics.results import total_heads

NOT_RUN, NOT_PUBLISHED = "not run", "not published"
STATUSES = (numbers.REPRODUCED, numbers.DIFFERS, HOLDS, FAILS, UNDECIDED, NOT_RUN, NOT_PUBLISHED)
COLUMNS = [
    *("part", "item", "model", "paper", "published", "this run", "difference", "status"),
    *("effect", "low", "high", "models", "runs", "rows", "trials", "it takes", "evidence"),
]
WHOLE = ("models", "runs", "rows", "trials")


def decide(
    models: dict[str, str],
    run: Evidence | None,
    published: Evidence | None,
    parameters: pd.DataFrame,
) -> pd.DataFrame:
    """Make a table with one row per item. Its status is that of the run, or without a run of the published files.

    So are effect, interval and what they are measured on: an effect is in points, and above zero if a claim holds.
    """
    subject, missing = (run, NOT_RUN) if run else (published, NOT_PUBLISHED)
    rows = []
    for model in models:
        totals = [total_heads(e.tidy, model) for e in (run, published) if e and model in set(e.tidy["model"])]
        is_papers = paper.same_model(model, totals[0]) if totals else model in paper.MODELS
        for number in numbers.numbers(model, parameters) if is_papers else []:
            rows.append(numbers.row_of(number, run, published, subject, missing))
    for model, title in models.items():  # all claims of a model together: its rows are read once
        for part, claim in ((part, claim) for part, claims in SOURCES.items() for claim in claims):
            if claim.only and model not in claim.only:
                continue
            answers = {name: e and _ask(claim, e, model) for name, e in (("run", run), ("published", published))}
            own = answers["run"] if run else answers["published"]
            rows.append(
                {
                    "part": part,
                    "item": claim.says,
                    "model": title,
                    "paper": "yes" if part == "Claims" else "",  # the paper says nothing about other claims
                    "published": _said(answers["published"], advise=False),
                    "this run": _said(answers["run"], advise=True),
                    "difference": "",
                    "status": missing if isinstance(own, Missing) else own.status,
                    **(_numbers(own, subject, model) if isinstance(own, Found) else {}),
                    "evidence": claim.where,
                }
            )
    table = pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(WHOLE, "Int64"))
    order = {claim.says: place for place, claim in enumerate(claim for own in SOURCES.values() for claim in own)}
    return table.sort_values("item", key=lambda items: items.map(order).fillna(-1), kind="stable", ignore_index=True)


def _numbers(own: Found, evidence: Evidence, model: str) -> dict:
    estimate = own.estimate
    if estimate is None:
        return {}
    runs = len(estimate.runs)
    effect = {"effect": 100 * estimate.value, "low": 100 * estimate.low, "high": 100 * estimate.high}
    counts = {"models": evidence.models(model, runs), "runs": runs, "trials": estimate.trials}
    return {**effect, **counts, "rows": estimate.rows or None, "it takes": own.takes}


def _ask(claim: Claim, evidence: Evidence, model: str) -> Found | Missing:
    try:
        return found(claim, evidence, model)
    except Missing as lack:
        return lack


def _said(answer: Found | Missing | None, advise: bool) -> str:
    """Write an answer; where data are missing, what a run must have, but no advice about published files."""
    if isinstance(answer, Found):
        return f"{answer.status}: {answer.text}"
    return str(answer) if answer and advise else ""
