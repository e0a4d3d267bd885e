"""The paper's statements, a record each, and those of Sentinel-AI about pruning heads.

`by` says what is measured: accuracies of classes, of language models those of next tokens, all runs averaged. A measure
is a number that must be above zero, in points of accuracy.
"""

from __future__ import annotations

from functools import partial

from gnorm.published import facts
from gnorm.published.deciding import Claim
from gnorm.published.evidence import Evidence
from gnorm.published.facts import HIGH, MORE_LEVELS
from gnorm.statistics.estimates import Measure, Missing
from gnorm.statistics.readings import LARGEST_RISE, RISES, at, change_at, later_than_earlier, mean_between

NEAR = 0.01  # "near-original", "around": within one point
REBOUND = 0.005  # a rise of half a point
GREEDY, INVERSE, RANDOM = "greedy_gnorm", "inverse_gnorm", "random"


def collapses_first(evidence: Evidence, model: str) -> list[Measure]:
    """Inverse-Gnorm against all others that are there."""
    others = [name for name in (GREEDY, "ae", "inverse_ae") if evidence.curves(model, name)] or [GREEDY]
    return [Measure(name, INVERSE, mean_between(0.0, 0.5)) for name in others]


def each_level(evidence: Evidence, model: str) -> list[Measure]:
    """Greedy-Gnorm against random pruning at every level between none and all."""
    evidence.need(model, GREEDY)
    return [Measure(GREEDY, RANDOM, at(share)) for share in _levels(evidence, model, 0, 1)]


def gap_widens(evidence: Evidence, model: str) -> list[Measure]:
    evidence.need(model, GREEDY)
    for half in ((0, 0.5 + 1e-9), (0.5, 1)):
        _levels(evidence, model, *half)
    return [Measure(GREEDY, RANDOM, later_than_earlier(0.5))]


def above_random_at_high_levels(evidence: Evidence, model: str) -> list[Measure]:
    evidence.need(model, "ae")
    _levels(evidence, model, HIGH, 1)
    return [Measure("ae", RANDOM, mean_between(HIGH, 1.0))]


def _levels(evidence: Evidence, model: str, above: float, below: float) -> list[float]:
    found = [share for share in evidence.need(model, RANDOM)[0][0] if above < share < below]
    if not found:
        raise Missing(MORE_LEVELS)
    return found


def within_a_point_up_to(share: float, evidence: Evidence, model: str) -> list[Measure]:
    """Entropy at every step up to a share of the heads."""
    steps = [step for step in evidence.need(model, "ae")[0][0] if 0 < step < share - 1e-9]
    return [Measure("ae", reading=change_at(step), above=-NEAR) for step in (*steps, share)]


def perplexities(share: float, evidence: Evidence, model: str) -> str:
    """What perplexity does up to a share of the heads, of language models."""
    if not (runs := evidence.curves(model, "ae", "perplexity")):
        return ""
    inside = [value for step, value in zip(*runs[0], strict=True) if step <= share + 1e-9]
    return f"; perplexity {inside[0]:,.2f} with all heads, at the most {max(inside):,.2f}"


CLAIMS = [
    Claim(
        "Greedy-Gnorm beats attention entropy",
        'Section 4.2: "AE underperforms Greedy-Gnorm across all models"',
        "PruningResults",
        "difference of the areas under the accuracy curves",
        (Measure(GREEDY, "ae"),),
    ),
    Claim(
        "Rescoring after every head beats scoring once",
        'Section 4.2: "dynamic gradient-based ranking provides more reliable pruning trajectories"',
        "PruningResults",
        "difference of the areas to the same score taken once",
        (Measure(GREEDY, "static_gnorm"),),
    ),
    Claim(
        "Inverse-Gnorm collapses first",
        'Section 4.2: "Inverse-Gnorm curves fall sharply after only modest pruning ratios"',
        "PruningResults",
        "less accuracy than with each other order, averaged up to half of the heads",
        collapses_first,
    ),
    Claim(
        "Inverse-AE falls slower and more erratically",
        'Section 4.2: "Inverse-AE shows slower and more erratic degradation"',
        "PruningResults",
        "against Inverse-Gnorm: accuracy averaged up to half of the heads, and the sum of all rises from step to step, "
        "of which every other row says where they are and the rest how large",
        (
            Measure("inverse_ae", INVERSE, mean_between(0.0, 0.5)),
            Measure("inverse_ae", INVERSE, RISES),
        ),
    ),
    Claim(
        "Greedy-Gnorm beats random pruning",
        'Section 4.2: "Greedy-Gnorm typically achieves the slowest overall accuracy decay"',
        "RandomPruning",
        "difference of the area to the mean area of random trials",
        (Measure(GREEDY, RANDOM),),
    ),
    Claim(
        "... at each level",
        'Section 1: "higher accuracy at equivalent pruning rates"',
        "RandomPruning, table random",
        "difference to the mean of random trials at each level between none and all heads",
        each_level,
    ),
    Claim(
        "The gap to random widens at higher pruning rates",
        'Section 4.2: "The discrepancy widens at higher pruning rates"',
        "RandomPruning",
        "mean gap beyond half of the heads, minus that up to half",
        gap_widens,
    ),
    Claim(
        "About 70% of the heads suffice",
        'Section 4.2: "approximately 70% of the heads suffice to retain near-original performance"',
        "PruningResults",
        f"change of accuracy with 30% of the heads pruned: a loss of less than {100 * NEAR:g} point",
        (Measure(GREEDY, reading=change_at(0.3), above=-NEAR),),
        only=("ROBERTA",),
    ),
    Claim(
        "About 90% accuracy with fewer than 20% of the heads",
        'Section 4.2: "around 90% accuracy with fewer than 20% of heads retained"',
        "PruningResults",
        f"accuracy with 80% of the heads pruned, above {0.9 - NEAR:.0%}",
        (Measure(GREEDY, reading=at(0.8), above=0.9 - NEAR),),
        only=("BERT",),
    ),
    Claim(
        "Accuracy rebounds on the way",
        'Section 4.2: "non-monotonic rebound segments"',
        "PruningResults",
        f"the largest rise from any step to a later one, above {100 * REBOUND:g} points: every other row says where it "
        "is, the rest how large",
        (Measure(GREEDY, reading=LARGEST_RISE, above=REBOUND),),
        only=("ROBERTA",),
    ),
    Claim(
        "Pruning a head changes other heads' gradients",
        'Figure 2: "nonlocal gradient shifts"',
        "gradientpooling",
        "every other head of the layer has a changed gradient",
        fact=facts.gradients_change_elsewhere,
    ),
    Claim(
        "Epsilon keeps the order of entropies",
        'Appendix C: "the pruning order induced by AE is preserved"',
        "table entropy",
        f"Kendall's tau of the variants C and A, from {facts.ORDER:g}",
        fact=facts.epsilon_keeps_the_order,
    ),
    Claim(
        "Epsilon shifts the entropy: C > B > 0",
        "Appendix C, the inequalities of its variants",
        "table entropy",
        "the least of C - B and of B over all heads",
        fact=facts.epsilon_shifts,
    ),
    Claim(
        "The entropy shards give the merged entropy",
        "the authors' files, `AE_calculation_results`",
        "entropy.csv",
        "the mean of the shards, weighted by rows, to six digits",
        fact=facts.shards_give_the_mean,
    ),
    Claim(
        "Accuracy is measured on held-out rows",
        'Section 4.1: "classification accuracy on the held-out test sets"',
        "dataset summaries",
        "evaluation rows that were also trained or scored on",
        fact=facts.held_out,
    ),
    Claim(
        "Averaged over three independent runs",
        'Section 4.1: "averaged over three independent runs"',
        "tidy.csv",
        "runs that each have a model of their own",
        fact=facts.three_runs,
    ),
]

# Claims of Sentinel-AI about its own criteria.
SENTINEL = [
    Claim(
        "Pruning up to 70% of the heads keeps performance",
        "its notes on entropy-based pruning",
        "PruningResults, Quality",
        f"accuracy by entropy (`ae`) at every step up to 70%: a loss of less than {100 * NEAR:g} point; Sentinel-AI "
        "evaluates language models by perplexity and does not say how much it may rise, so it is shown beside it",
        partial(within_a_point_up_to, 0.7),
        beside=partial(perplexities, 0.7),
    ),
    Claim(
        "Entropy beats random pruning at high levels",
        "its notes on entropy-based pruning",
        "tables areas, random",
        f"difference of the accuracies to random trials, averaged beyond {HIGH:.0%} of the heads",
        above_random_at_high_levels,
    ),
    Claim(
        "Magnitude beats random pruning",
        "its notes on magnitude-based pruning",
        "table criteria",
        "difference of the area to the mean area of random trials",
        (Measure("magnitude", RANDOM, is_criterion=True),),
    ),
    Claim(
        "Speed rises with pruning",
        "its notes on evaluation",
        "table speed, Quality",
        f"tokens a second by entropy (`ae`), mean over levels above {HIGH:.0%} against all heads; undecided where the "
        "slowest to fastest rounds of the two overlap (for quiet times delete the model's speed.csv and run "
        "`snakemake --cores 1`)",
        fact=facts.speed_rises,
    ),
]
SOURCES = {"Claims": CLAIMS, "Sentinel-AI": SENTINEL}
