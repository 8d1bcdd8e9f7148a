"""How many words of a text come from each of two or more texts. Plain Python: no model, no tensors.

A word is a case-folded run of letters and digits, with apostrophes and hyphens inside it. Punctuation is not counted,
because almost all sentences share it.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

# In scripts written without spaces, every character counts as a word.
UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+(?:['’-][^\W_{UNSPACED}]+)*")
_LETTER_LOOP = re.compile(r"([^\W\d_]{1,6}?)\1{4,}")  # "dududududu"; does not match the zeros of 1000000
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)\]\s]*$")

Precisions = list[list[float]]  # per text: the precision of the output against it, then that of each other text


def words(text: str) -> list[str]:
    """Return the case-folded words of a text, in order."""
    return _WORD.findall(text.casefold())


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each word of a text, in order."""
    return [match.span() for match in _WORD.finditer(text)]


# English function words, which most pairs of sentences share. They include the parts of "don't", "it's" and "I'll" in
# tokenized text.
FUNCTION_WORDS = frozenset(
    words(
        """a about above after again against all also am an and any are aren't as at be because been before being below
        between both but by can can't cannot could couldn't d did didn't do does doesn't doing don't down during each
        few for from further had hadn't has hasn't have haven't having he he's her here hers herself him himself his
        how i i'd i'll i'm i've if in into is isn't it it's its itself just let's ll m me more most my myself n't no
        nor not now of off on once only or other our ours ourselves out over own re s same shan't she she's should
        shouldn't so some such t than that that's the their theirs them themselves then there there's these they
        they're this those through to too under until up ve very was wasn't we we're were weren't what what's when
        where which while who who's whom why will with won't would wouldn't you you're your yours yourself yourselves"""
    )
)


def unigram_precision(output: str, reference: str) -> float:
    """Return the share of the output's words that occur in the reference, clipped at their counts there, as in BLEU.

    There is no brevity penalty. An output without words has precision 1 if the reference has none either, else 0.
    """
    counts, reference_counts = Counter(words(output)), Counter(words(reference))
    if not counts:
        return 0.0 if reference_counts else 1.0
    return (counts & reference_counts).total() / counts.total()


def share_of_first(output: str, a: str, b: str) -> float:
    """Return the share of a in the output, by words: 1 for a copy of a, 0 for a copy of b.

        gainᵃ = max(0, P(output, a) − P(b, a))      precision against a, above that of b
        gainᵇ = max(0, P(output, b) − P(a, b))      the same for b
        share = gainᵃ / (gainᵃ + gainᵇ)

    with P the unigram precision. Subtracting the overlap of the two texts makes both ends exact, however many words
    the texts have in common. If both gains are 0 (the output has words of neither, or the two texts have the same
    words), the share is 0.5.
    """
    return shares(output, (a, b))[0]


def shares(output: str, texts: Sequence[str]) -> list[float]:
    """Return the share of each of two or more texts in the output, by words: 1, 0 … 0 for a copy of the first.

        gainᵗ = max(0, P(output, t) − max P(u, t) over the other texts u)
        shareᵗ = gainᵗ / Σ gains

    For two texts, the first share is that of `share_of_first`. If all gains are 0, the shares are equal.
    """
    return shares_of(precisions(output, texts))


def mean_share_of_first(outputs: Sequence[str], a: Sequence[str], b: Sequence[str]) -> float:
    """Return the share of a over many pairs, computed from mean precisions; less noisy than a mean of shares.

    An output with few words of either text has a noisy share (a ratio of two small numbers, or 0.5 for 0/0). It has
    little weight in the mean precisions, where chance overlaps (another "the") cancel out.
    """
    return mean_shares(outputs, list(zip(a, b, strict=True)))[0]


def mean_shares(outputs: Sequence[str], rows: Sequence[Sequence[str]]) -> list[float]:
    """Return the share of each text over many rows of texts, computed as in `mean_share_of_first`."""
    return shares_of(mean_precisions([precisions(output, texts) for output, texts in zip(outputs, rows, strict=True)]))


def precisions(output: str, texts: Sequence[str]) -> Precisions:
    """Return for each text the precision of the output against it, then those of the other texts."""
    return [
        [unigram_precision(output, text), *(unigram_precision(other, text) for u, other in enumerate(texts) if u != t)]
        for t, text in enumerate(texts)
    ]


def mean_precisions(rows: Sequence[Precisions]) -> Precisions:
    """Average each precision over rows."""
    return [[sum(cells) / len(rows) for cells in zip(*of_text, strict=True)] for of_text in zip(*rows, strict=True)]


def shares_of(precisions: Precisions) -> list[float]:
    """Compute the shares of texts from their precisions (see `shares`)."""
    gains = [max(0.0, of_output - max(of_others)) for of_output, *of_others in precisions]
    total = sum(gains)
    return [gain / total if total > 0 else 1 / len(gains) for gain in gains]


@dataclass(frozen=True)
class WordOrigins:
    """The shares of an output's words that occur in a, in b, and in either."""

    in_a: float
    in_b: float
    either: float

    @property
    def neither(self) -> float:
        """The share of the words that occur in neither text."""
        return 1.0 - self.either

    @classmethod
    def of(cls, output: str, a: str, b: str) -> "WordOrigins":
        """Compute the shares with counts clipped as in `unigram_precision`; for `either`, at the sum of both texts.

        So a word that a crossover takes from both texts ("the") counts twice, but repetitions beyond that do not count.
        """
        counts, counts_a, counts_b = Counter(words(output)), Counter(words(a)), Counter(words(b))
        total = counts.total() or 1
        in_a, in_b = (counts & counts_a).total() / total, (counts & counts_b).total() / total
        either = (counts & (counts_a + counts_b)).total() / total
        return cls(in_a, in_b, either)


def has_content_words_of_both(output: str, a: str, b: str) -> bool:
    """Whether the output has a content word that only a has, and one that only b has.

    Content words are all words except FUNCTION_WORDS.
    """
    return has_content_words_of_all(output, (a, b))


def has_content_words_of_all(output: str, texts: Sequence[str]) -> bool:
    """Whether the output has, for each text, a content word that only this text has."""
    content = set(words(output)) - FUNCTION_WORDS
    own = Counter(word for text in texts for word in set(words(text)))
    return all(any(own[word] == 1 for word in content & set(words(text))) for text in texts)


def faithfulness(output: str, a: str, b: str) -> float:
    """Return the share of the output's words found in a or b; 0 if it does not have content words of both.

    A copy of one text has faithfulness 0.
    """
    return WordOrigins.of(output, a, b).either if has_content_words_of_both(output, a, b) else 0.0


def largest_step(shares: Sequence[float]) -> float:
    """Return the largest change between neighbouring shares: 1 for a path that switches from one copy to the other."""
    return max(abs(right - left) for left, right in pairwise(shares))


def same_text(first: str, second: str) -> bool:
    """Whether two texts are equal without regard to spaces and case: "Don't go." equals "do n't go ."."""
    return _folded(first) == _folded(second)


def _folded(text: str) -> str:
    return "".join(text.casefold().split())


def most_repeated_trigram(text: str) -> int:
    """Return the count of the most frequent word trigram: usually 1; 0 for fewer than three words."""
    return max(_trigrams(text).values(), default=0)


def repeated_trigram_rate(text: str) -> float:
    """Return the share of a text's word trigrams that repeat an earlier one; 0 for fewer than three words."""
    trigrams = _trigrams(text)
    return (trigrams.total() - len(trigrams)) / trigrams.total() if trigrams else 0.0


def repeats_itself(text: str) -> bool:
    """Whether a text is degenerate: a word trigram occurs three times, or up to six letters five times in a row."""
    return most_repeated_trigram(text) >= 3 or _LETTER_LOOP.search(text.casefold()) is not None


def _trigrams(text: str) -> Counter[tuple[str, str, str]]:
    run = words(text)
    return Counter(zip(run, run[1:], run[2:], strict=False))


def ends_like_a_sentence(text: str) -> bool:
    """Whether a text ends in sentence punctuation, ignoring closing quotes and brackets."""
    return _SENTENCE_END.search(text) is not None
