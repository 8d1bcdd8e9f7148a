"""Crossovers of two texts: runs of words of one, then of the other.

cuts    where a text can be cut, and what stands before each place
search  the best crossovers, given how well the parts of one text follow those of the other
"""

from linda.crossovers.cuts import CutText
from linda.crossovers.search import Crossover, CrossoverSearch, SeamScores, naive_splice

__all__ = ["Crossover", "CrossoverSearch", "CutText", "SeamScores", "naive_splice"]
