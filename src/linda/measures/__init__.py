"""Measures of texts. Counting words is plain Python and imports neither a model nor torch.

word_overlap  which words of a text come from each of two or more texts; repetitions; sentence ends
pairs         random pairs of sentences to measure on
fluency       perplexity under a language model; word-level mixes and shuffled words to compare with
"""

from linda.measures.word_overlap import (
    FUNCTION_WORDS,
    WordOrigins,
    ends_like_a_sentence,
    faithfulness,
    has_content_words_of_all,
    has_content_words_of_both,
    largest_step,
    mean_precisions,
    mean_share_of_first,
    mean_shares,
    most_repeated_trigram,
    precisions,
    repeated_trigram_rate,
    repeats_itself,
    same_text,
    share_of_first,
    shares,
    shares_of,
    unigram_precision,
    word_spans,
    words,
)

__all__ = [
    "FUNCTION_WORDS",
    "WordOrigins",
    "ends_like_a_sentence",
    "faithfulness",
    "has_content_words_of_all",
    "has_content_words_of_both",
    "largest_step",
    "mean_precisions",
    "mean_share_of_first",
    "mean_shares",
    "most_repeated_trigram",
    "precisions",
    "repeated_trigram_rate",
    "repeats_itself",
    "same_text",
    "share_of_first",
    "shares",
    "shares_of",
    "unigram_precision",
    "word_spans",
    "words",
]
