"""Measures of texts. Counting words is plain Python and imports neither a model nor torch.

word_overlap  which words of a text come from each of two texts; repetitions; sentence ends
pairs         random pairs of sentences to measure on
fluency       perplexity under a language model; word-level mixes and shuffled words to compare with
"""

from linda.measures.word_overlap import (
    FUNCTION_WORDS,
    PairPrecisions,
    WordOrigins,
    ends_like_a_sentence,
    faithfulness,
    has_content_words_of_both,
    largest_step,
    mean_share_of_first,
    most_repeated_trigram,
    repeated_trigram_rate,
    repeats_itself,
    same_text,
    share_of_first,
    unigram_precision,
    word_spans,
    words,
)

__all__ = [
    "FUNCTION_WORDS",
    "PairPrecisions",
    "WordOrigins",
    "ends_like_a_sentence",
    "faithfulness",
    "has_content_words_of_both",
    "largest_step",
    "mean_share_of_first",
    "most_repeated_trigram",
    "repeated_trigram_rate",
    "repeats_itself",
    "same_text",
    "share_of_first",
    "unigram_precision",
    "word_spans",
    "words",
]
