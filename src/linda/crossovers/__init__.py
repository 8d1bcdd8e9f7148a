"""Crossovers of texts: a run of words of one, then of another.

cuts    positions where a text can be cut, and counts before each position
search  the best crossovers of two texts, given how well the parts of one text follow those of the other
chains  the best crossovers of three or more texts
"""

from linda.crossovers.chains import ChainSearch
from linda.crossovers.cuts import CutText
from linda.crossovers.search import Crossover, CrossoverSearch, SeamScores, naive_splice

__all__ = ["ChainSearch", "Crossover", "CrossoverSearch", "CutText", "SeamScores", "naive_splice"]
