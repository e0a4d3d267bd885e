"""The reproduction report: what was asked, what was done, what the data say, what they cannot, and what it cost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gnorm.pages.document import Block, Heading, Intervals, Items, Picture, Table, Text
from gnorm.pages.verdict import TITLES, readable, tallies
from gnorm.pruning.rescoring import rounds
from gnorm.published.claims import SOURCES
from gnorm.published.deciding import Claim
from gnorm.statistics.intervals import FEWEST, UNDECIDED
from gnorm.statistics.results import curves

NOTHING = "-"
HOURS = {"jobs": 0, "hours": 2, "hours of a core": 2, "most memory (MB)": 0}


def blocks(
    *,
    verdict: pd.DataFrame,
    tidy: pd.DataFrame,
    facts: Mapping[str, Any],
    figures: Sequence[str],
    jobs: pd.DataFrame,
    versions: pd.DataFrame,
) -> list[Block]:
    """Put the report together; `facts` are those of `Suite.facts`, `figures` PNG files."""
    claims = [(part, claim) for part, own in SOURCES.items() for claim in own]
    pictures = {Path(path).stem: path for path in figures}
    found = [
        Heading(1, f"Reproduction report: the suite `{facts['suite']}`"),
        Text(
            "Greedy-Gnorm prunes attention heads by gradient norms that are taken again after every head. This page "
            "says which of the paper's claims, and of Sentinel-AI's about its own criteria, hold in this run, on what "
            "evidence and how surely. It is written from `verdict.csv` and the benchmark files of the jobs."
        ),
        Items([f"{what}: {tally}" for what, tally in tallies(verdict)]),
        *scope(verdict, claims),
        *method(facts),
        Heading(2, "Results, claim by claim"),
        Text(
            "An effect says how far the data are above what a claim asks for, in points of accuracy, with its "
            f"{facts['intervals']['level']:.0%} interval. A claim holds if the interval is above zero, does not hold "
            "if it is below, and is undecided if it covers zero, or if one of fewer than "
            f"{FEWEST} runs is on the other side."
        ),
    ]
    shown: set[str] = set()
    for part, claim in claims:
        own = verdict[(verdict["part"] == part) & (verdict["item"] == claim.says)]
        if len(own):
            found += result(claim, own, pictures, shown)
    found += numbers(verdict)
    found += [*undecided(verdict), *cost(jobs, tidy, facts)]
    return [*found, Heading(2, "Versions and hardware"), Table(versions)]


def scope(verdict: pd.DataFrame, claims: Iterable[tuple[str, Claim]]) -> list[Block]:
    """Every claim, and whether it holds for each model."""
    models, found = list(dict.fromkeys(verdict["model"])), [Heading(2, "Scope: the claims")]
    for part, title in TITLES.items():
        rows = []
        for own in (claim for of, claim in claims if of == part):
            status = verdict[(verdict["part"] == part) & (verdict["item"] == own.says)].set_index("model")["status"]
            if len(status):
                rows.append([own.says, *(status.get(model, "") for model in models)])
        if rows:
            name = title[:1].upper() + title[1:]
            found.append(Table(pd.DataFrame(rows, columns=[name, *models]), own=(name,)))
    return found


def method(facts: Mapping[str, Any]) -> list[Block]:
    """What was run, and where it departs from the paper."""
    runs, level = facts["runs"], facts["intervals"]["level"]
    when = {"never": "once", "every_step": "after every step", "": NOTHING}
    orders = [
        [name, entry["score"], entry.get("prune", NOTHING), when.get(often, f"every {often} steps")]
        for name, entry in facts["strategies"].items()
        for often in [entry.get("rescore", "")]
    ]
    models = pd.DataFrame(facts["models"]).drop(columns="name").astype(str)
    deviations = [
        "Models and rows are those of the table above, not the paper's, unless the suite is `paper`.",
        "Scores are "
        + (
            "one gradient a sentence, as the paper's equations say; its notebooks take one a batch."
            if facts["granularity"] == "sentence"
            else "one gradient a batch, as the paper's notebooks take them."
        ),
        "Whether accuracy is measured on rows that no score has seen is a claim of its own below; in the paper's code "
        "all rows of BERT and ALBERT are scored too.",
        "The stop point follows from a rule that is fixed beforehand, unless the suite sets it; the paper's was picked "
        "by hand.",
        f"There {'is 1 run' if runs == 1 else f'are {runs} runs'} of each order. The paper claims three independent "
        "runs, and its code has one.",
    ]
    return [
        Heading(2, "Method and deviations"),
        Text(
            "Each order prunes head after head; after every step accuracy is measured on the same rows. Run 0 takes "
            "the calibration rows as they are. In further runs `vary: rows` resamples them for the same model, "
            "`vary: training` trains a model of its own."
        ),
        Table(models),
        Table(pd.DataFrame(orders, columns=["order", "score", "prunes first", "takes scores"])),
        Text(
            f"Intervals ({level:.0%}) are percentiles of {facts['intervals']['resamples']:,} bootstrap resamples of "
            "evaluation rows, in pairs, as all orders meet the same rows. Random trials are resampled too and, from "
            f"{FEWEST} runs on, runs. Everything drawn follows from the seed {facts['intervals']['seed']}."
        ),
        Heading(3, "Where this departs from the paper"),
        Items(deviations),
    ]


def result(claim: Claim, own: pd.DataFrame, pictures: Mapping[str, str], shown: set[str]) -> list[Block]:
    """What the data say of one claim, and the figure that shows it, where it comes first."""
    found: list[Block] = [Heading(3, claim.says), Text(f"{claim.source}. Measured: {claim.by}.")]
    estimated = own[own["effect"].notna()]
    if len(estimated):
        values = estimated[["model", "status", "effect", "low", "high"]].itertuples(index=False, name=None)
        found.append(Intervals("points", list(values)))
    said = own["this run"].where(own["this run"] != "", own["published"])
    table = pd.DataFrame({"model": own["model"], "status": own["status"]})
    table["evidence"] = [
        re.sub(rf"^{re.escape(status)}: ", "", text) for status, text in zip(own["status"], said, strict=True)
    ]
    if own["models"].notna().any():
        counts = own[["models", "runs", "rows", "trials"]].astype("Int64").astype(object)
        table["models, runs, rows, trials"] = [
            " / ".join(NOTHING if pd.isna(n) else f"{n:,}" for n in row) for row in counts.itertuples(index=False)
        ]
    if (own["published"] != "").any() and (own["this run"] != "").any():
        table["the authors' files"] = own["published"]
    found.append(Table(table, own={*table} - {"model"}))
    for name in [name for name in re.findall(r"\w+", claim.where) if name in pictures]:
        if name not in shown:
            shown.add(name)
            found.append(Picture(pictures[name], f"Figure {len(shown)}: `{name}`"))
        else:
            found.append(Text(f"See the figure `{name}` above."))
    return found


def numbers(verdict: pd.DataFrame) -> list[Block]:
    """The numbers that the paper prints, of models of its shapes."""
    own = verdict[verdict["part"].str.startswith("Table")]
    if own.empty:
        return []
    columns = ["part", "item", "model", "paper", "published", "this run", "difference", "status"]
    return [Heading(2, "Numbers of the paper's tables"), Table(own[columns], own={*columns} - {"model"})]


def undecided(verdict: pd.DataFrame) -> list[Block]:
    """What the data do not decide and what it would take; what was not run and what to add."""
    found: list[Block] = [Heading(2, "What could not be decided")]
    own = readable(verdict[verdict["status"] == UNDECIDED])
    if own.empty:
        found.append(Text("Nothing that was run is undecided."))
    else:
        interval = [f"{low} to {high}" if low else NOTHING for low, high in zip(own["low"], own["high"], strict=True)]
        table = pd.DataFrame({"claim": own["item"], "model": own["model"], "effect (points)": own["effect"]})
        table = table.assign(interval=interval, **{"it would take": own["it takes"].replace("", NOTHING)})
        found += [
            Text(
                "The last column says how many rows, random trials or runs in all would show an effect as large as the "
                "one found in four of five studies (80% power), if nothing else changes."
            ),
            Table(table, own={*table} - {"model"}, numbers=("effect (points)", "interval")),
        ]
    lacking = verdict[verdict["status"].isin(["not run", "not published"])]
    if len(lacking):
        table = lacking.groupby(["item", "this run"], sort=False)["model"].agg(", ".join).reset_index()
        table = table.set_axis(["claim", "what to add", "models"], axis=1)[["claim", "models", "what to add"]]
        found += [Heading(3, "What was not run"), Table(table, own=("claim", "what to add"))]
    return found


def cost(jobs: pd.DataFrame, tidy: pd.DataFrame, facts: Mapping[str, Any]) -> list[Block]:
    """Hours of finished jobs, and how often models were measured and scored."""
    found: list[Block] = [Heading(2, "Cost")]
    if len(jobs):
        total = {"job": "all", **jobs[["jobs", "hours", "hours of a core"]].sum().to_dict()}
        whole = pd.concat([jobs, pd.DataFrame([total | {"most memory (MB)": jobs["most memory (MB)"].max()}])])
        for name, places in HOURS.items():
            whole[name] = [NOTHING if pd.isna(value) else f"{value:,.{places}f}" for value in whole[name]]
        found += [
            Text("Jobs that run a model, by their benchmark files; several run at once, and other work counts too."),
            Table(whole, own=("job",), numbers=tuple(HOURS)),
        ]
    return [
        *found,
        Text(
            "Passes: how often the evaluation rows went through a model, once for each step or level, and how often "
            "scores were taken of the calibration rows, forward and backward as the criterion asks (table `criteria`)."
        ),
        Table(passes(tidy, facts), numbers=("accuracy measured", "scores taken")),
    ]


def passes(tidy: pd.DataFrame, facts: Mapping[str, Any]) -> pd.DataFrame:
    """Count measurements and scorings of each model's runs and random trials."""
    rows = []
    for model in facts["models"]:
        scored = 0
        for name, entry in facts["strategies"].items():
            if "rescore" in entry:
                steps = (len(curve) - 1 for curve in curves(tidy, model["name"], name))
                scored += sum(rounds(entry["rescore"], count) for count in steps)
        measured = int((tidy["model"] == model["name"]).sum())
        rows.append([model["model"], f"{measured:,}", f"{scored:,}"])
    return pd.DataFrame(rows, columns=["model", "accuracy measured", "scores taken"])


def jobs_of(folder: Path) -> pd.DataFrame:
    """Sum up the benchmark files of a suite by kind of job; one that is cut short does not count."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for path in sorted(folder.rglob("*.tsv")):
        rule = next(part for part in path.relative_to(folder).parts if not re.fullmatch(r"run\d+", part))
        try:
            row = pd.read_csv(path, sep="\t").iloc[0]
            numbers_of = [pd.to_numeric(row.get(name), errors="coerce") for name in ("s", "cpu_time", "max_rss")]
        except (OSError, ValueError, IndexError):
            continue
        found.setdefault(rule, []).append(tuple(map(float, numbers_of)))
    rows = []
    for rule, own in found.items():
        seconds, cores, memory = np.array(own).T
        most = np.nan if np.isnan(memory).all() else np.nanmax(memory)
        rows.append([f"`{rule}`", len(own), np.nansum(seconds) / 3600, np.nansum(cores) / 3600, most])
    return pd.DataFrame(rows, columns=["job", *HOURS])
