"""Twenty invented languages, told apart by how they spell.

Languages come in families of five that share their roots; within a family each member
applies its own spelling rules (sound shifts, an ending for every word, doubled letters,
accents). Words are compounds of two roots, so most words of a text are new.
"""

from __future__ import annotations

from random import Random

FAMILIES, MEMBERS = 4, 5
LABELS = tuple(f"{'pqrs'[f]}{'aeiou'[m]}" for f in range(FAMILIES) for m in range(MEMBERS))

CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
SHIFTS = ({}, {"k": "c", "z": "x"}, {"v": "w", "f": "ph"}, {"s": "sh", "b": "p"}, {"d": "th", "g": "j"})
ACCENTS = ({}, {"a": "á"}, {"o": "ø"}, {"e": "ê"}, {"u": "ü"})
DOUBLED = ("", "l", "t", "n", "r")
ENDINGS = ("", "a", "en", "i", "os")


def roots(family: int) -> list[str]:
    rng = Random(f"roots {family}")
    return ["".join(rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(2)) for _ in range(40)]


ROOTS = [roots(family) for family in range(FAMILIES)]


def spell(word: str, member: int) -> str:
    """Spell a family's plain word as this member of the family does."""
    word = word.replace(DOUBLED[member], 2 * DOUBLED[member]) if DOUBLED[member] else word
    return "".join(SHIFTS[member].get(c, ACCENTS[member].get(c, c)) for c in word)


def sample(rng: Random) -> tuple[str, None, str]:
    family, member = rng.randrange(FAMILIES), rng.randrange(MEMBERS)
    words = []
    for _ in range(rng.randint(4, 9)):
        plain = "".join(rng.choice(ROOTS[family]) for _ in range(2))
        ending = ENDINGS[member] if rng.random() < 0.5 else ""
        words.append(spell(plain, member) + ending)
    return " ".join(words), None, LABELS[family * MEMBERS + member]
