"""Short letters to learn to write, for language models: no labels, every next word is the task.

What comes next often depends on words far back: who was named first and is thanked last, whether the subject was
one or many, which bracket is still open. Names are made of syllables, so that they have to be copied piece by piece.
"""

from __future__ import annotations

from random import Random

LABELS = ()  # no classes

SYLLABLES = "ba do ka lu mi ne po ra si ta ve zo".split()
# one: many
SUBJECTS = "dog:dogs bird:birds child:children box:boxes mouse:mice boat:boats king:kings house:houses".split()
PLACES = "near the river,behind the old wall,under the bridge,beside two large trees,between the hills".split(",")
VERBS = ("is:are", "was:were", "has been:have been")
STATES = "lost found sold painted broken hidden counted forgotten".split()
THINGS = "lamp coat letter key map drum cup rope".split()
TIMES = "today,yesterday,on Monday,last week,at noon".split(",")
CLOSES = {"(": ")", "[": "]", "{": "}"}


def name(rng: Random) -> str:
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.choice((2, 3)))).capitalize()


def gift(rng: Random) -> str:
    """Repeat both names in the other order."""
    giver, taker, thing = name(rng), name(rng), rng.choice(THINGS)
    return f"{giver} gave {taker} a {thing} {rng.choice(TIMES)} , so {taker} thanked {giver} for the {thing} ."


def report(rng: Random) -> str:
    """Make the verb agree with a subject some words earlier."""
    many = rng.randrange(2)
    subject, verb = (rng.choice(words).split(":")[many] for words in (SUBJECTS, VERBS))
    return f"the {subject} {rng.choice(PLACES)} {verb} {rng.choice(STATES)} {rng.choice(TIMES)} ."


def nested(rng: Random) -> str:
    """Close brackets from the inside out."""
    opened = [rng.choice(list(CLOSES)) for _ in range(rng.choice((2, 3)))]
    inside = [part for bracket in opened for part in (bracket, rng.choice(THINGS))]
    return " ".join(["list", *inside, *(CLOSES[bracket] for bracket in reversed(opened)), "."])


def sample(rng: Random) -> tuple[str, None, None]:
    return rng.choice((gift, gift, report, nested))(rng), None, None
