"""What is measured on texts. Words are counted in plain Python: neither a model nor torch is imported for it.

word_overlap  what a text owes to each of two texts, repetitions, endings
pairs         random pairs of sentences to measure on
fluency       perplexity under a language model, and what to hold that against
"""

from linda.measures.word_overlap import (
    FUNCTION_WORDS,
    PairPrecisions,
    WordOrigins,
    ends_like_a_sentence,
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
