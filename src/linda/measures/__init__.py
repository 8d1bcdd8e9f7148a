"""Measures of texts. Word overlap is plain Python and imports neither a model nor torch.

word_overlap  which words of a text come from each of two or more texts; repetitions; sentence ends
pairs         random pairs of sentences to measure on
fluency       perplexity under a language model; word-level mixes and shuffled words as baselines
"""

from linda.measures.word_overlap import FUNCTION_WORDS as FUNCTION_WORDS
from linda.measures.word_overlap import WordOrigins as WordOrigins
from linda.measures.word_overlap import ends_like_a_sentence as ends_like_a_sentence
from linda.measures.word_overlap import faithfulness as faithfulness
from linda.measures.word_overlap import has_content_words_of_all as has_content_words_of_all
from linda.measures.word_overlap import has_content_words_of_both as has_content_words_of_both
from linda.measures.word_overlap import largest_step as largest_step
from linda.measures.word_overlap import mean_precisions as mean_precisions
from linda.measures.word_overlap import mean_share_of_first as mean_share_of_first
from linda.measures.word_overlap import mean_shares as mean_shares
from linda.measures.word_overlap import most_repeated_trigram as most_repeated_trigram
from linda.measures.word_overlap import precisions as precisions
from linda.measures.word_overlap import repeated_trigram_rate as repeated_trigram_rate
from linda.measures.word_overlap import repeats_itself as repeats_itself
from linda.measures.word_overlap import same_text as same_text
from linda.measures.word_overlap import share_of_first as share_of_first
from linda.measures.word_overlap import shares as shares
from linda.measures.word_overlap import shares_of as shares_of
from linda.measures.word_overlap import unigram_precision as unigram_precision
from linda.measures.word_overlap import word_spans as word_spans
from linda.measures.word_overlap import words as words
