"""Tweets, positive or negative, and neutral ones that no class covers.

Most tweets weigh two opinions against each other; the connective says which of them
the writer holds, and either may be negated. A linear model over words sees one
positive and one negative word and cannot tell which counts.
"""

from __future__ import annotations

from random import Random

LABELS = ("negative", "positive")
UNSCORED = ("neutral",)

THINGS = (
    "movie phone game concert album coffee pizza update app teacher flight hotel match series "
    "camera battery weather service trailer keyboard burger episode shop queue party"
).split()
GOOD = (
    "great amazing lovely brilliant awesome perfect fun sweet gorgeous superb neat delightful excellent solid cool"
).split()
BAD = (
    "awful terrible boring horrible useless broken lame ugly slow annoying rubbish disappointing dreadful weak messy"
).split()
NEGATION = ("not", "never", "hardly")
BOOST = ("so", "really", "sooo", "totally", "", "", "")
OPENERS = ("omg", "ok", "lol", "well", "honestly", "ugh", "tbh", "", "", "")
TAGS = "monday mood weekend london nofilter live fail win news tbt work friday random".split()
# the last clause counts / the first clause counts
LAST_COUNTS = ("but", "yet")
FIRST_COUNTS = ("although", "even if")
PLANS = (
    "heading to the {} at {}",
    "who else is at the {} until {}",
    "new {} review is up at {}",
    "the {} starts at {}",
    "any news on the {} before {}",
    "waiting for the {} since {}",
)


def opinion(rng: Random, positive: bool) -> str:
    negated = rng.random() < 0.25
    word = rng.choice(GOOD if positive != negated else BAD)
    words = ["the", rng.choice(THINGS), "is", rng.choice(NEGATION) if negated else rng.choice(BOOST), word]
    return " ".join(w for w in words if w)


def decorate(rng: Random, body: str) -> str:
    handle = f"@{rng.choice(THINGS)}{rng.randint(1, 999)}" if rng.random() < 0.4 else ""
    tags = " ".join(f"#{t}" for t in rng.sample(TAGS, rng.choice((0, 0, 1, 2))))
    return " ".join(f"{handle} {rng.choice(OPENERS)} {body} {tags}".split())


def sample(rng: Random) -> tuple[str, None, str]:
    label = rng.choice(LABELS + UNSCORED)
    if label == "neutral":
        plan = rng.choice(PLANS).format(rng.choice(THINGS), f"{rng.randint(1, 12)}:{rng.randint(10, 59)}")
        return decorate(rng, plan), None, label
    held = opinion(rng, label == "positive")
    if rng.random() < 0.2:
        return decorate(rng, held), None, label
    other = opinion(rng, (label == "positive") == (rng.random() < 0.15))
    if rng.random() < 0.5:
        body = f"{other} {rng.choice(LAST_COUNTS)} {held}"
    else:
        body = f"{held} {rng.choice(FIRST_COUNTS)} {other}"
    return decorate(rng, body), None, label
