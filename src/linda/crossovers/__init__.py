"""Crossovers of texts: a run of words from one text, then a run from another.

cuts    positions where a text can be cut, and counts before each position
search  the best crossovers of two texts, given the scores of all seams
chains  the best crossovers of three or more texts
"""

from linda.crossovers.chains import ChainSearch
from linda.crossovers.cuts import CutText
from linda.crossovers.search import Crossover, CrossoverSearch, SeamScores, naive_splice

__all__ = ["ChainSearch", "Crossover", "CrossoverSearch", "CutText", "SeamScores", "naive_splice"]
