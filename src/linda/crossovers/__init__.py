"""Crossovers of two texts: a run of words of one, then of the other.

cuts    positions where a text can be cut, and counts before each position
search  the best crossovers, given how well the parts of one text follow those of the other
"""

from linda.crossovers.cuts import CutText
from linda.crossovers.search import Crossover, CrossoverSearch, SeamScores, naive_splice

__all__ = ["Crossover", "CrossoverSearch", "CutText", "SeamScores", "naive_splice"]
