"""Financial headlines in three classes, with negation and a distractor.

The label is the direction of the main clause. A subordinate clause reports another
company, with a direction and a negation of its own, before or after the main clause:
which words decide is a question of syntax, so counting words is not enough.
"""

from __future__ import annotations

from random import Random

LABELS = ("negative", "neutral", "positive")

FIRST = "Nor Tel Bex Cal Dra Fen Gol Hax Ivo Jun Kel Lum Mer Nax Orb Pel Quin Ros Sil Tor".split()
LAST = "vik mar dyne tec lon dor sys via gen tra max ford".split()
KIND = "Group Bank Energy Motors Foods Pharma Steel Media Air Labs".split()
METRIC = (
    "revenue profit sales margins orders shares earnings output bookings exports deliveries "
    "turnover volumes demand traffic income backlog cash-flow dividends premiums"
).split()
# past tense, base form
UP = (
    "rose:rise climbed:climb surged:surge jumped:jump improved:improve advanced:advance "
    "rallied:rally grew:grow recovered:recover strengthened:strengthen"
).split()
DOWN = (
    "fell:fall slid:slide dropped:drop slumped:slump declined:decline sank:sink "
    "weakened:weaken tumbled:tumble shrank:shrink plunged:plunge"
).split()
FLAT = ("were unchanged", "held steady", "stayed flat", "barely moved", "were stable")
NEGATION = ("did not", "failed to", "did not", "never managed to")
SUBORDINATE = ("while", "although", "as", "even though", "whereas", "because")
WHEN = ("in the first quarter", "last week", "on Monday", "this year", "in May", "overnight", "")
WHERE = ("in Asia", "in Europe", "at home", "abroad", "in Tokyo", "", "", "")


def clause(rng: Random) -> tuple[str, str]:
    """Make one statement about one company, and its direction."""
    company = f"{rng.choice(FIRST)}{rng.choice(LAST)} {rng.choice(KIND)}"
    direction = rng.choice(LABELS)
    negated = direction != "neutral" and rng.random() < 0.4
    if direction == "neutral":
        verb = rng.choice(FLAT)
    elif negated:  # "did not fall" reports good news
        words = DOWN if direction == "positive" else UP
        verb = f"{rng.choice(NEGATION)} {rng.choice(words).split(':')[1]}"
    else:
        words = UP if direction == "positive" else DOWN
        verb = rng.choice(words).split(":")[0]
        if rng.random() < 0.4:
            verb += f" {rng.randint(1, 40)}%"
    place = rng.choice(WHERE)
    return " ".join(f"{company} {rng.choice(METRIC)} {place} {verb}".split()), direction


def sample(rng: Random) -> tuple[str, None, str]:
    main, label = clause(rng)
    other, _ = clause(rng)
    aside = f"{rng.choice(SUBORDINATE)} {other}"
    when = rng.choice(WHEN)
    if rng.random() < 0.5:
        text = f"{main} {when} {aside}"
    else:
        text = f"{aside} {when} , {main}"
    return " ".join(text.split()), None, label
