"""Accuracy against pruned groups of neurons for every strategy that prunes them; heads stay.

Lines are the mean over runs, or over random trials; bands span all of them.
"""

from gnorm.figures.pruningresults import drawn
from gnorm.statistics.results import Results

NEEDS = ("tidy",)
SHOWN = ("columns", "tasks")
UNIT = "neurons"


def draw(results: Results, settings: dict):
    return drawn(results, settings, list(results.strategies), "groups of neurons")
