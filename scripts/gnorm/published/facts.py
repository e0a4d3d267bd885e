"""Facts that claims are about: counted or compared exactly, without an interval. All raise `Missing`."""

from __future__ import annotations

import numpy as np
import pandas as pd

from gnorm.published import paper
from gnorm.published.deciding import Found
from gnorm.published.evidence import Evidence
from gnorm.statistics.estimates import ADD, Missing

ORDER = 0.99  # Kendall's tau from which two orders count as one
HIGH = 0.5  # "high levels" of pruning: more than this share of the heads
MORE_LEVELS = "raise `random.levels` in the suite"


def gradients_change_elsewhere(evidence: Evidence, model: str) -> Found:
    if model not in evidence.gradients:
        raise Missing("run `gradient_change`")
    stored = evidence.gradients[model]
    layer, shares = int(stored["layer"]), []
    for change, (row, head) in zip(stored["change"], stored["pruned"], strict=True):
        others = [h for h in range(len(change)) if not (row == layer and h == head)]
        shares.append((np.abs(change[others]) > 0).any(axis=1).mean())
    text = f"of the other heads of layer {layer}, {min(shares):.0%} have changed gradients"
    return Found.of_fact(text, min(shares) == 1)


def _diagnostics(evidence: Evidence, model: str) -> dict:
    if model not in evidence.entropy:
        raise Missing("add a strategy with `score: entropy` to config.yaml")
    return evidence.entropy[model]


def epsilon_keeps_the_order(evidence: Evidence, model: str) -> Found:
    tau = _diagnostics(evidence, model)["kendall_tau"]["C"]
    return Found.of_fact(f"Kendall's tau of C and A {tau:.4f}", tau >= ORDER)


def epsilon_shifts(evidence: Evidence, model: str) -> Found:
    least = _diagnostics(evidence, model)["least"]
    text = ", ".join(f"{name} at least {value:.1e}" for name, value in least.items())
    return Found.of_fact(text, least["C - B"] > 0 and least["B"] > 0)


def shards_give_the_mean(evidence: Evidence, model: str) -> Found:
    line = evidence.merged.get(model)
    if not line or pd.isna(line["largest difference"]):
        raise Missing("of the authors' files alone, which `--config published=PATH` reads")
    gaps = line["rows left out"]
    left = "" if pd.isna(gaps) or not gaps else f"; rows left out: {gaps}"
    text = f"{line['shards']} shards, {line['rows']} rows, largest difference {line['largest difference']:.1e}{left}"
    return Found.of_fact(text, bool(line["same"]))


def held_out(evidence: Evidence, model: str) -> Found:
    if evidence.splits:
        lists = evidence.splits[model]
        text = f"{lists['seen']} of {len(lists['evaluation'])} rows were also trained or scored on"
        return Found.of_fact(text, lists["seen"] == 0)
    if model in paper.MODELS:
        split = paper.MODELS[model].split
        return Found.of_fact(f"measured on the split `{split}`, on rows that are also scored", False)
    raise Missing("run `make_dataset`")


def three_runs(evidence: Evidence, model: str) -> Found:
    """Count runs that train a model each; others resample the calibration rows of one."""
    runs = evidence.need(model, "greedy_gnorm")
    count = f"{len(runs)} run{'s' if len(runs) > 1 else ''}"
    if evidence.published:
        return Found.of_fact(count, len(runs) >= 3)
    independent = model in evidence.independent
    lacking = ["`runs: 3` in config.yaml"] if len(runs) < 3 else []
    lacking += [] if independent else ["`vary: training` in the suite, for a model that it trains"]
    if lacking:
        resampled = "" if independent or len(runs) == 1 else f"{count} resample the calibration rows of one model: "
        raise Missing(f"{resampled}set {' and '.join(lacking)}")
    return Found.of_fact(f"{count}, each with a model of its own", True)


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
        return Found.of_fact(text, after > before)
    return Found.of_fact(f"{text}: these overlap", None)
