"""The paper's statements, item by item, decided by the data; and those of Sentinel-AI about pruning heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from gnorm.published import paper
from gnorm.shown import in_markdown, markdown_table
from gnorm.statistics.curves import accuracy_at, area, collapse, megabytes, rises, wilson
from gnorm.statistics.results import curves, of_run_0, total_heads

PRINTED = 0.005 + 1e-9  # half a unit of the second decimal
RUN_POINTS = 1.0  # accuracy of a run of one's own, in points
NEAR = 0.01  # "near-original": within one point
ORDER = 0.99  # Kendall's tau from which two orders count as one
REBOUND = 0.005  # a rise of half a point
HIGH = 0.5  # "high levels" of pruning: more than this share of the heads
ADD = "add the strategy `{}` to config.yaml"
MORE_LEVELS = "raise `random.levels` in the suite"


@dataclass(frozen=True)
class Evidence:
    """The contents of the published files, or of this run; fields without data are empty."""

    tidy: pd.DataFrame
    tolerance: float  # of accuracies, in points
    published: bool = False  # by the authors; how often a run of one's own was repeated is a setting, no evidence
    entropy: dict[str, dict] = field(default_factory=dict)  # diagnostics, by model
    gradients: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    merged: dict[str, dict] = field(default_factory=dict)  # shards against merged files, by model
    splits: dict[str, dict] = field(default_factory=dict)
    criteria: dict[str, pd.DataFrame] = field(default_factory=dict)  # curves of the criteria that are compared
    speeds: dict[str, pd.DataFrame] = field(default_factory=dict)
    independent: tuple[str, ...] = ()  # models whose every run has trained one of its own

    def curves(self, model: str, strategy: str, of: str = "accuracy") -> list[tuple[list[float], list[float]]]:
        """List (fractions, values) of each run, or trial of run 0, that prunes all heads and has the metric `of`."""
        if of not in self.tidy:
            return []
        tables = curves(self.tidy, model, strategy)
        if tables and tables[0]["trial"].notna().all():
            tables = of_run_0(tables)
        whole = [c for c in tables if np.isclose(c["fraction_pruned"].iloc[-1], 1) and c[of].notna().all()]
        return [(curve["fraction_pruned"].tolist(), curve[of].tolist()) for curve in whole]

    def need(self, model: str, strategy: str) -> list[tuple[list[float], list[float]]]:
        """Get the curves of a strategy that a claim needs; raises `Missing`."""
        if complete := self.curves(model, strategy):
            return complete
        if curves(self.tidy, model, strategy):
            raise Missing(f"`{strategy}` ends before the last head: set `stop: {{}}` in config.yaml")
        raise Missing(ADD.format(strategy))

    def accuracy(self, model: str, pruned: int) -> float | None:
        """The accuracy of greedy pruning in run 0, in percent."""
        runs = curves(self.tidy, model, "greedy_gnorm")
        if not runs:
            return None
        at = runs[0].set_index("heads_pruned")["accuracy"]
        return 100 * at[pruned] if pruned in at else None

    def guesses(self, models: dict[str, str]) -> list[tuple[str, str]]:
        """List (title, warning) of models that are worse than the most common class before anything is pruned."""
        warnings = []
        for model, title in models.items():
            common = self.splits.get(model, {}).get("majority")
            unpruned = self.tidy[(self.tidy["model"] == model) & (self.tidy["heads_pruned"] == 0)]["accuracy"]
            if common is not None and len(unpruned) and unpruned.iloc[0] < common:
                warning = (
                    f"is right on {unpruned.iloc[0]:.1%} of its evaluation rows before pruning, always "
                    f"answering their most common class on {common:.1%}: what pruning does to it says little. Are "
                    "`classes:` in the order of the model's outputs?"
                )
                warnings.append((title, warning))
        return warnings


class Missing(Exception):
    """Data needed for a claim are missing; the text says how a run gets them."""


@dataclass(frozen=True)
class Found:
    text: str
    holds: bool | None  # None where the data do not decide


Decide = Callable[[Evidence, str], Found]  # raises `Missing`


@dataclass(frozen=True)
class Claim:
    says: str
    decide: Decide
    where: str  # the table or figure to look at
    only: tuple[str, ...] = ()  # models, if not all
    by: str = ""  # the deciding measure, where there was a choice


def greedy_beats(other: str) -> Decide:
    def decide(evidence: Evidence, model: str) -> Found:
        greedy, others = evidence.need(model, "greedy_gnorm"), evidence.need(model, other)
        areas = [(area(*a), area(*b)) for a, b in zip(greedy, others, strict=False)]
        runs = f", in {sum(a > b for a, b in areas)} of {len(areas)} runs" if len(areas) > 1 else ""
        return Found(f"area {areas[0][0]:.3f} against {areas[0][1]:.3f}{runs}", areas[0][0] > areas[0][1])

    return decide


def inverse_collapses_first(evidence: Evidence, model: str) -> Found:
    others = [s for s in ("greedy_gnorm", "ae", "inverse_ae") if evidence.curves(model, s)] or ["greedy_gnorm"]
    at = {name: collapse(*evidence.need(model, name)[0]) for name in ("inverse_gnorm", *others)}
    text = "half of the accuracy is lost at " + ", ".join(f"{name} {share:.0%}" for name, share in at.items())
    return Found(text, all(at["inverse_gnorm"] < share for name, share in at.items() if name != "inverse_gnorm"))


def _levels(evidence: Evidence, model: str) -> list[tuple[float, float, np.ndarray]]:
    """List (fraction, greedy accuracy, accuracies of the random trials) between none and all pruned."""
    greedy, trials = evidence.need(model, "greedy_gnorm"), evidence.need(model, "random")
    inner = [f for f in trials[0][0] if 0 < f < 1]
    if not inner:
        raise Missing(MORE_LEVELS)
    return [(f, accuracy_at(*greedy[0], f), np.array([accuracy_at(*trial, f) for trial in trials])) for f in inner]


def greedy_beats_random(evidence: Evidence, model: str) -> Found:
    greedy, trials = evidence.need(model, "greedy_gnorm"), evidence.need(model, "random")
    own, areas = area(*greedy[0]), np.array([area(*trial) for trial in trials])
    share = float((areas < own).mean())
    low, high = wilson(share, len(areas))
    text = f"area {own:.3f} against {areas.mean():.3f}; beats {share:.0%} of {len(areas)} trials"
    return Found(f"{text} (95% interval {low:.0%} to {high:.0%})", own > areas.mean())


def greedy_beats_random_at_each_level(evidence: Evidence, model: str) -> Found:
    levels = _levels(evidence, model)
    above = [own > trials.mean() for _, own, trials in levels]
    shares = [(trials < own).mean() for _, own, trials in levels]
    text = (
        f"above the mean at {sum(above)} of {len(above)} levels; beats {min(shares):.0%} to {max(shares):.0%} of trials"
    )
    return Found(text, all(above))


def gap_widens(evidence: Evidence, model: str) -> Found:
    levels = _levels(evidence, model)
    gaps = {half: [own - trials.mean() for f, own, trials in levels if (f > 0.5) == half] for half in (False, True)}
    if not all(gaps.values()):
        raise Missing(MORE_LEVELS)
    early, late = np.mean(gaps[False]), np.mean(gaps[True])
    text = f"mean gap {100 * early:+.1f} points up to half of the heads, {100 * late:+.1f} beyond"
    return Found(text, late > early)


def gradients_change_elsewhere(evidence: Evidence, model: str) -> Found:
    if model not in evidence.gradients:
        raise Missing("run `gradient_change`")
    stored = evidence.gradients[model]
    layer, shares = int(stored["layer"]), []
    for change, (row, head) in zip(stored["change"], stored["pruned"], strict=True):
        others = [h for h in range(len(change)) if not (row == layer and h == head)]
        shares.append((np.abs(change[others]) > 0).any(axis=1).mean())
    text = f"of the other heads of layer {layer}, {min(shares):.0%} have changed gradients"
    return Found(text, min(shares) == 1)


def _diagnostics(evidence: Evidence, model: str) -> dict:
    if model not in evidence.entropy:
        raise Missing("add a strategy with `score: entropy` to config.yaml")
    return evidence.entropy[model]


def epsilon_keeps_the_order(evidence: Evidence, model: str) -> Found:
    tau = _diagnostics(evidence, model)["kendall_tau"]["C"]
    return Found(f"Kendall's tau of C and A {tau:.4f}", tau >= ORDER)


def epsilon_shifts(evidence: Evidence, model: str) -> Found:
    least = _diagnostics(evidence, model)["least"]
    text = ", ".join(f"{name} at least {value:.1e}" for name, value in least.items())
    return Found(text, least["C - B"] > 0 and least["B"] > 0)


def shards_give_the_mean(evidence: Evidence, model: str) -> Found:
    line = evidence.merged.get(model)
    if not line or pd.isna(line["largest difference"]):
        raise Missing("of the authors' files alone, which `--config published=PATH` reads")
    gaps = line["rows left out"]
    left = "" if pd.isna(gaps) or not gaps else f"; rows left out: {gaps}"
    text = f"{line['shards']} shards, {line['rows']} rows, largest difference {line['largest difference']:.1e}{left}"
    return Found(text, bool(line["same"]))


def heads_suffice(share: float) -> Decide:
    def decide(evidence: Evidence, model: str) -> Found:
        runs = evidence.need(model, "greedy_gnorm")
        before, after = runs[0][1][0], accuracy_at(*runs[0], 1 - share)
        return Found(f"{100 * before:.1f}% with all heads, {100 * after:.1f}% with {share:.0%}", after >= before - NEAR)

    return decide


def ninety_percent(evidence: Evidence, model: str) -> Found:
    runs = evidence.need(model, "greedy_gnorm")
    kept = [(a, 1 - f) for f, a in zip(*runs[0], strict=True) if 1 - f < 0.2]
    best, share = max(kept)
    return Found(f"{100 * best:.1f}% with {share:.1%} of the heads", round(best, 2) >= 0.90)


def inverse_ae_is_slower_and_rougher(evidence: Evidence, model: str) -> Found:
    gnorm, entropy = evidence.need(model, "inverse_gnorm"), evidence.need(model, "inverse_ae")
    slow, rough = (collapse(*c[0]) for c in (gnorm, entropy)), (rises(c[0][1]) for c in (gnorm, entropy))
    (slow_g, slow_e), (rough_g, rough_e) = slow, rough
    text = f"half lost at {slow_e:.0%} against {slow_g:.0%}"
    text += f"; rises add up to {100 * rough_e:.0f} against {100 * rough_g:.0f} points"
    return Found(text, slow_e > slow_g and rough_e > rough_g)


def rebounds(evidence: Evidence, model: str) -> Found:
    steps = np.diff(evidence.need(model, "greedy_gnorm")[0][1])
    return Found(f"{int((steps > REBOUND).sum())} rises of more than half a point", bool((steps > REBOUND).any()))


def held_out(evidence: Evidence, model: str) -> Found:
    if evidence.splits:
        lists = evidence.splits[model]
        text = f"{lists['seen']} of {len(lists['evaluation'])} rows were also trained or scored on"
        return Found(text, lists["seen"] == 0)
    if model in paper.MODELS:
        split = paper.MODELS[model].split
        return Found(f"measured on the split `{split}`, on rows that are also scored", False)
    raise Missing("run `make_dataset`")


def three_runs(evidence: Evidence, model: str) -> Found:
    """Count runs that train a model each; others resample the calibration rows of one."""
    runs = evidence.need(model, "greedy_gnorm")
    count = f"{len(runs)} run{'s' if len(runs) > 1 else ''}"
    if evidence.published:
        return Found(count, len(runs) >= 3)
    independent = model in evidence.independent
    lacking = ["`runs: 3` in config.yaml"] if len(runs) < 3 else []
    lacking += [] if independent else ["`vary: training` in the suite, for a model that it trains"]
    if lacking:
        resampled = "" if independent or len(runs) == 1 else f"{count} resample the calibration rows of one model: "
        raise Missing(f"{resampled}set {' and '.join(lacking)}")
    return Found(f"{count}, each with a model of its own", True)


def keeps_performance(share: float) -> Decide:
    """Decide Sentinel-AI's claim on entropy: within one point of the unpruned model at every level up to `share`.

    Sentinel-AI evaluates language models by perplexity and does not say how much it may rise. So the accuracy of next
    tokens decides, as for all other claims, and perplexity is shown beside it.
    """

    def upto(fractions: list[float], values: list[float]) -> list[float]:
        inside = [value for f, value in zip(fractions, values, strict=True) if f <= share + 1e-9]
        return [*inside, accuracy_at(fractions, values, share)]

    def decide(evidence: Evidence, model: str) -> Found:
        accuracies = upto(*evidence.need(model, "ae")[0])
        least = min(accuracies)
        text = f"{100 * accuracies[0]:.1f}% with all heads, at the least {100 * least:.1f}% up to {share:.0%} pruned"
        if runs := evidence.curves(model, "ae", "perplexity"):
            perplexities = upto(*runs[0])
            text += f"; perplexity {perplexities[0]:,.2f} with all heads, at the most {max(perplexities):,.2f}"
        return Found(text, least >= accuracies[0] - NEAR)

    return decide


def entropy_beats_random_at_high_levels(evidence: Evidence, model: str) -> Found:
    own, trials = evidence.need(model, "ae"), evidence.need(model, "random")
    levels = [f for f in trials[0][0] if HIGH < f < 1]
    if not levels:
        raise Missing(MORE_LEVELS)
    gaps = [accuracy_at(*own[0], f) - np.mean([accuracy_at(*trial, f) for trial in trials]) for f in levels]
    text = f"above the mean of {len(trials)} trials at {sum(gap > 0 for gap in gaps)} of {len(gaps)} levels"
    return Found(f"{text}; mean gap {100 * np.mean(gaps):+.1f} points", float(np.mean(gaps)) > 0)


def magnitude_beats_random(evidence: Evidence, model: str) -> Found:
    measured, trials = evidence.criteria.get(model), evidence.need(model, "random")
    own = None if measured is None else measured[(measured["criterion"] == "magnitude") & (measured["run"] == 0)]
    if own is None or own.empty:
        raise Missing("add `magnitude` to `compare` of the suite, or of config.yaml if it has a list")
    reached = area(own["fraction_pruned"].tolist(), own["accuracy"].tolist())
    areas = np.array([area(*trial) for trial in trials])
    text = f"area {reached:.3f} against {areas.mean():.3f}; beats {(areas < reached).mean():.0%} of {len(areas)} trials"
    return Found(text, reached > areas.mean())


def speed_rises(evidence: Evidence, model: str) -> Found:
    """Compare speeds by their mean over levels, with the range from the slowest rounds to the fastest."""
    if model not in evidence.speeds:
        raise Missing("add `tokens_per_second` to `metrics` of its task in config.yaml")
    speeds = evidence.speeds[model]
    own = speeds[speeds["strategy"] == "ae"].set_index("fraction_pruned")
    if own.empty:
        raise Missing(ADD.format("ae"))
    later = own[(own.index > HIGH) & (own.index < 1)]
    if later.empty:
        raise Missing(f"{MORE_LEVELS}, or set `stop: {{}}` in config.yaml")
    rates = ["tokens_per_second", "lowest_tokens_per_second", "highest_tokens_per_second"]
    (before, low, high), (after, later_low, later_high) = own[rates].iloc[0], later[rates].mean()
    text = f"{before:,.0f} tokens a second with all heads ({low:,.0f} to {high:,.0f} over rounds), "
    text += f"{after / before:.2f} times as many with more than half pruned ({later_low:,.0f} to {later_high:,.0f})"
    if later_low > high or later_high < low:
        return Found(text, after > before)
    return Found(f"{text}: these overlap", None)


CLAIMS = [
    Claim("Greedy-Gnorm beats attention entropy", greedy_beats("ae"), "PruningResults"),
    Claim("Rescoring after every head beats scoring once", greedy_beats("static_gnorm"), "PruningResults"),
    Claim("Inverse-Gnorm collapses first", inverse_collapses_first, "PruningResults"),
    Claim("Inverse-AE falls slower and more erratically", inverse_ae_is_slower_and_rougher, "PruningResults"),
    Claim("Greedy-Gnorm beats random pruning", greedy_beats_random, "RandomPruning"),
    Claim("... at each level", greedy_beats_random_at_each_level, "RandomPruning, table random"),
    Claim("The gap to random widens at higher pruning rates", gap_widens, "RandomPruning"),
    Claim("About 70% of the heads suffice", heads_suffice(0.7), "PruningResults", ("ROBERTA",)),
    Claim("About 90% accuracy with fewer than 20% of the heads", ninety_percent, "PruningResults", ("BERT",)),
    Claim("Accuracy rebounds on the way", rebounds, "PruningResults", ("ROBERTA",)),
    Claim("Pruning a head changes other heads' gradients", gradients_change_elsewhere, "gradientpooling"),
    Claim("Epsilon keeps the order of entropies", epsilon_keeps_the_order, "table entropy"),
    Claim("Epsilon shifts the entropy: C > B > 0", epsilon_shifts, "table entropy"),
    Claim("The entropy shards give the merged entropy", shards_give_the_mean, "entropy.csv"),
    Claim("Accuracy is measured on held-out rows", held_out, "dataset summaries"),
    Claim("Averaged over three independent runs", three_runs, "tidy.csv"),
]


# Claims of Sentinel-AI about its own criteria.
SENTINEL = [
    Claim(
        "Pruning up to 70% of the heads keeps performance",
        keeps_performance(0.7),
        "PruningResults, Quality",
        by=f"accuracy, of language models that of next tokens, by entropy (`ae`) within {100 * NEAR:g} point of all "
        "heads at every level up to 70%; perplexity, which Sentinel-AI evaluates by, is shown beside it",
    ),
    Claim(
        "Entropy beats random pruning at high levels",
        entropy_beats_random_at_high_levels,
        "tables areas, random",
        by=f"the mean gap in accuracy to random trials at levels above {HIGH:.0%}",
    ),
    Claim(
        "Magnitude beats random pruning",
        magnitude_beats_random,
        "table criteria",
        by="the area under the accuracy curve against the mean of random trials",
    ),
    Claim(
        "Speed rises with pruning",
        speed_rises,
        "table speed, Quality",
        by=f"tokens a second by entropy (`ae`), mean over levels above {HIGH:.0%} against all heads; undecided where "
        "the slowest to fastest rounds of the two overlap (for quiet times delete the model's speed.csv and run "
        "`snakemake --cores 1`)",
    ),
]
SOURCES = {"Claims": CLAIMS, "Sentinel-AI": SENTINEL}


@dataclass(frozen=True)
class Number:
    """A number that the paper prints."""

    part: str
    item: str
    model: str
    printed: float
    decimals: int
    find: Callable[[Evidence], float | None]  # from accuracies
    computed: float | None = None  # from the architecture and the mask, independent of any run
    points: bool = False  # an accuracy: one's own run may differ by more than rounding


def numbers(model: str, parameters: pd.DataFrame) -> list[Number]:
    """Tables 1-5 for one model."""
    facts = paper.MODELS[model]
    own = parameters[parameters["model"] == model].set_index("module")
    title, none = facts.title, lambda _evidence: None
    before, after = (lambda e: e.accuracy(model, 0)), (lambda e: e.accuracy(model, facts.pruned))

    def lost(evidence):
        pair = before(evidence), after(evidence)
        return None if None in pair else 100 * (1 - pair[1] / pair[0])

    size = [megabytes(own.loc["model", when]) for when in ("before", "after")]
    items = [
        Number("Table 1", "accuracy before (%)", title, facts.accuracy[0], 2, before, points=True),
        Number("Table 1", f"accuracy after {facts.pruned} heads (%)", title, facts.accuracy[1], 2, after, points=True),
        Number("Table 1", "decrease of accuracy (%)", title, facts.accuracy_lost, 2, lost, points=True),
        Number("Table 1", "size before (MB)", title, facts.megabytes[0], 2, none, size[0]),
        Number("Table 1", "size after (MB)", title, facts.megabytes[1], 2, none, size[1]),
        Number("Table 1", "decrease of size (%)", title, facts.megabytes_lost, 2, none, 100 * (1 - size[1] / size[0])),
    ]
    for module, *printed in facts.parameters:
        for when, value in zip(("before", "after"), printed, strict=True):
            computed = float(own.loc[module, when])
            items.append(Number("Tables 2-5", f"parameters of {module} {when}", title, value, 0, none, computed))
    return items


def decide(
    models: dict[str, str],
    run: Evidence | None,
    published: Evidence | None,
    parameters: pd.DataFrame,
) -> pd.DataFrame:
    """Make a table with one row per item. Its status is that of the run, or without a run of the published files."""
    subject, missing = (run, "not run") if run else (published, "not published")
    rows = []
    for model in models:
        totals = [total_heads(e.tidy, model) for e in (run, published) if e and model in set(e.tidy["model"])]
        is_papers = paper.same_model(model, totals[0]) if totals else model in paper.MODELS
        for number in numbers(model, parameters) if is_papers else []:
            rows.append(_number_row(number, run, published, subject, missing))
    for part, claim in ((part, claim) for part, claims in SOURCES.items() for claim in claims):
        for model, title in models.items():
            if claim.only and model not in claim.only:
                continue
            answers = {name: e and _ask(claim, e, model) for name, e in (("run", run), ("published", published))}
            of_subject = answers["run"] if run else answers["published"]
            rows.append(
                {
                    "part": part,
                    "item": claim.says,
                    "model": title,
                    "paper": "yes" if part == "Claims" else "",  # the paper says nothing about other claims
                    "published": _said(answers["published"], advise=False),
                    "this run": _said(answers["run"], advise=True),
                    "difference": "",
                    "status": missing if isinstance(of_subject, Missing) else STATUS[of_subject.holds],
                    "evidence": claim.where,
                }
            )
    return pd.DataFrame(rows)


def _ask(claim: Claim, evidence: Evidence, model: str) -> Found | Missing:
    try:
        return claim.decide(evidence, model)
    except Missing as lack:
        return lack


def _said(answer: Found | Missing | None, advise: bool) -> str:
    """Write an answer; where data are missing, what a run must have, but no advice about published files."""
    if isinstance(answer, Found):
        return f"{SAID[answer.holds]}: {answer.text}"
    return str(answer) if answer and advise else ""


def _number_row(number: Number, run, published, subject, missing) -> dict:
    values = {name: e and number.find(e) for name, e in (("run", run), ("published", published))}
    value = number.computed if number.computed is not None else values["run" if run else "published"]
    tolerance = subject.tolerance if number.points else 10**-number.decimals / 2 + 1e-9
    show = f"{{:,.{number.decimals}f}}".format
    difference = None if value is None else value - number.printed
    close = difference is not None and abs(difference) <= tolerance
    shown = {name: "" if v is None else show(v) for name, v in values.items()}
    if number.computed is not None:
        shown["run"] = show(number.computed)
    row = {"part": number.part, "item": number.item, "model": number.model, "paper": show(number.printed)}
    row |= {"published": shown["published"], "this run": shown["run"]}
    row["difference"] = "" if difference is None else f"{difference:+.{number.decimals}f}"
    row["status"] = missing if value is None else "reproduced" if close else "differs"
    slip = (
        value is not None and not close and abs(difference) < 1.5 * 10**-number.decimals and "decrease" in number.item
    )
    how = "architecture and mask" if number.computed is not None else "PruningResults"
    return row | {"evidence": f"{how}; a slip of the last digit in print" if slip else how}


def markdown(table: pd.DataFrame, of_run: bool, suite: str, warnings: Sequence[tuple[str, str]] = ()) -> str:
    """Write the page: warnings, the claims that hold or not, then every item."""
    whose = f"this run of the suite `{suite}`" if of_run else "the authors' published files"
    lines = ["# Verdict\n", *(f"**{in_markdown(title)} {warning}**\n" for title, warning in warnings)]
    lines += [f"What {whose} {'says' if of_run else 'say'}:\n"]
    for part, of_part in table.groupby("part", sort=False)["status"]:
        counts = of_part.value_counts()
        tally = ", ".join(f"{counts[s]} {s}" for s in STATUSES if s in counts)
        lines.append(f"- {TITLES.get(part, f'{part} of the paper')}: {tally}")
    lines.append("")
    for part, claims_of_part in SOURCES.items():
        claims = table[table["part"] == part]
        if claims.empty:
            continue
        marks = {"reproduced": "yes", "differs": "**no**", "undecided": "?"}
        pivot = claims.assign(mark=claims["status"].map(marks).fillna("-"))
        pivot = pivot.pivot_table(index="item", columns="model", values="mark", aggfunc="first", sort=False).fillna("")
        whose = "" if part == "Claims" else f" What {part} says of head pruning, decided on its own criteria:"
        lines.append(f"Does it hold? (- : no data, ? : data that do not tell){whose}\n")
        marked = pivot.reset_index()
        lines += [markdown_table(marked, own=marked.columns), ""]
        if decided := [f"- {claim.says}: {claim.by}" for claim in claims_of_part if claim.by]:
            lines += ["What decides:\n", *decided, ""]
    lines += [
        f"Tolerances: accuracies of the published files to the printed digits, of a run of one's own {RUN_POINTS:g} "
        f"point; sizes and parameters to the printed digits. `Near-original` is within {100 * NEAR:g} point; an order "
        f"is kept from Kendall's tau {ORDER:g}; high levels are above {HIGH:.0%} pruned; "
        "a curve collapses where it falls halfway to its end; areas are under "
        "accuracy over the pruned fraction, of run 0. Sizes and parameters are computed from the architecture and the "
        "paper's masks, without weights.\n",
        "## Every item\n",
        markdown_table(table.fillna(""), own={*table.columns} - {"model"}),
        "",
    ]
    return "\n".join(lines)


SAID = {True: "yes", False: "no", None: "undecided"}
STATUS = {True: "reproduced", False: "differs", None: "undecided"}  # of a claim that holds, fails, or is open
STATUSES = (*STATUS.values(), "not run", "not published")
TITLES = {"Claims": "claims of the paper", "Sentinel-AI": "claims of Sentinel-AI"}
