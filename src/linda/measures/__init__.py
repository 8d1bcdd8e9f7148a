"""Measures of texts. Counting words is plain Python and imports neither a model nor torch.

word_overlap  which words of a text come from each of two texts; repetitions; sentence ends
pairs         random pairs of sentences to measure on
fluency       perplexity under a language model; word-level mixes and shuffled words to compare with
"""

from linda.measures.word_overlap import FUNCTION_WORDS, faithfulness, share_of_first, unigram_precision

__all__ = ["FUNCTION_WORDS", "faithfulness", "share_of_first", "unigram_precision"]
