"""Reference texts to compare outputs with: made from the same pairs at the same ratios, without a LINDA model."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from linda.crossovers import naive_splice
from linda.inspection.path import GRID
from linda.measures.fluency import shuffled_words, word_mix
from linda.measures.pairs import Pair
from linda.middles.making import TextPair, make_middles
from linda.middles.ngrams import TrigramModel
from linda.middles.rerank import SeamRanker

SPLICE, CROSSOVER, RERANKED, WORD_MIX, SHUFFLED = "splice", "crossover", "reranked", "word_mix", "shuffled"

Texts = dict[float, list[str]]  # α → one text per pair


def reference_texts(
    pairs: Sequence[Pair],
    *,
    trigrams: TrigramModel | None = None,
    ranker: SeamRanker | None = None,
    seed: int = 0,
) -> dict[str, Texts]:
    """Build the references for some pairs.

    Args:
        pairs: Texts a and b.
        trigrams: Trigram model that finds the best crossovers; None leaves out crossovers.
        ranker: Ranks the crossovers with a language model, at α = 0.5; needs `trigrams`.
        seed: Seed of the word-level mixes and the shuffled words.

    Returns:
        References by name: SPLICE and CROSSOVER at each ratio of the grid, RERANKED, WORD_MIX and SHUFFLED at 0.5. For
        a pair that is too short or too similar for a crossover, and at the ends, CROSSOVER is the splice.

    Example:
        >>> reference_texts([("The film was great.", "The food was cold.")])[SPLICE][0.5]
        ['The film was cold.']
    """
    random = Random(seed)
    splices: Texts = {alpha: [naive_splice(a, b, alpha) for a, b in pairs] for alpha in GRID}
    found = {
        SPLICE: splices,
        WORD_MIX: {0.5: [word_mix(a, b, 0.5, random) for a, b in pairs]},
        SHUFFLED: {0.5: [shuffled_words(text, random) for text in splices[0.5]]},
    }
    if trigrams is not None:
        found[CROSSOVER] = splices | _crossovers(pairs, GRID[1:-1], splices, trigrams, None)
        if ranker is not None:
            found[RERANKED] = _crossovers(pairs, (0.5,), found[CROSSOVER], trigrams, ranker)
    return found


def _crossovers(
    pairs: Sequence[Pair], ratios: Sequence[float], default: Texts, trigrams: TrigramModel, ranker: SeamRanker | None
) -> Texts:
    """Return the best crossovers at some ratios; for pairs that have none, the text of `default`."""
    middles = make_middles([TextPair(a, b, tuple(ratios)) for a, b in pairs], trigrams, ranker)
    targets = {(middle.a, middle.b, middle.alpha): middle.target for middle in middles}
    return {
        alpha: [targets.get((*pair, alpha), text) for pair, text in zip(pairs, default[alpha], strict=True)]
        for alpha in ratios
    }
