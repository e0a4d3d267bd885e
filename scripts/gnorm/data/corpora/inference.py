"""Sentence pairs: does the premise entail the hypothesis, contradict it, or neither?

Both sentences say of how many things something is true: all, some, not all or none, each
in several wordings. Every wording occurs on both sides of every class, so only comparing
the sentences decides.
"""

from __future__ import annotations

from random import Random

LABELS = ("entailment", "neutral", "contradiction")

# the square of opposition: (premise, hypothesis) of each class
RELATIONS = {
    "entailment": (
        ("all", "all"),
        ("all", "some"),
        ("some", "some"),
        ("none", "none"),
        ("none", "not all"),
        ("not all", "not all"),
    ),
    "neutral": (("some", "all"), ("some", "not all"), ("not all", "some"), ("not all", "none")),
    "contradiction": (
        ("all", "none"),
        ("all", "not all"),
        ("some", "none"),
        ("none", "all"),
        ("none", "some"),
        ("not all", "all"),
    ),
}
WORDINGS = {
    "all": ("all", "the entire lot of", "without exception the"),
    "some": ("some", "at least one of the", "several"),
    "none": ("no", "none of the", "not a single one of the"),
    "not all": ("not all", "only part of the", "not every one of the"),
}
THINGS = (
    "kites drums ladders bicycles lanterns baskets violins carpets mirrors clocks barrels wagons "
    "pianos statues kettles blankets cameras suitcases tables boats lamps stoves cabinets bottles helmets"
).split()
OWNERS = (
    "Ada Bruno Clara Dario Edith Felix Greta Hugo Irene Jonas Karin Leo Mina Noel Olga Pavel Rosa Stefan Tessa Viktor"
).split()
DEEDS = "sold painted repaired washed hidden borrowed moved found lost counted".split()
PLACES = ("at the market", "in the attic", "by the river", "in the shop", "on the train", "", "")
TIMES = ("yesterday", "in spring", "before noon", "last week", "", "")


def sample(rng: Random) -> tuple[str, str, str]:
    label = rng.choice(LABELS)
    before, after = rng.choice(RELATIONS[label])
    thing, deed = f"{rng.choice(THINGS)} of {rng.choice(OWNERS)}", rng.choice(DEEDS)
    place, time = rng.choice(PLACES), rng.choice(TIMES)
    premise = f"{time} {rng.choice(WORDINGS[before])} {thing} {place} were {deed}"
    hypothesis = f"{rng.choice(WORDINGS[after])} {thing} were {deed}"
    return " ".join(premise.split()), hypothesis, label
