"""Scores of seams, where the end of one text follows the beginning of another, under a trigram model.

A score depends only on the words around the seam, so all seams of a pair are scored at once.
"""

from __future__ import annotations

import numpy as np

from linda.crossovers import CrossoverSearch, CutText, SeamScores
from linda.crossovers.cuts import running_total
from linda.crossovers.search import FloatArray
from linda.middles.ngrams import END, START, TrigramModel, tokens_of

# Weights of the cost of the seam relative to each word's own context, and of the association (PMI) of its two sides: a
# seam between two frequent words ("of the") has no cost, but no association either.
_COST, _ASSOCIATION = 0.6, 0.4
_SECOND_SEAM = -2.5


class CutContexts:
    """The tokens of a text around each position where it can be cut."""

    def __init__(self, text: CutText, model: TrigramModel) -> None:
        tokens = [tokens_of(chunk) or [chunk] for chunk in text.chunks]
        numbers = model.ids([token for chunk in tokens for token in chunk])
        framed = np.concatenate([[START, START], numbers, [END, END]])
        self.lengths = running_total(map(len, tokens))  # (n + 1,): tokens before each position
        self.before = framed[self.lengths], framed[self.lengths + 1]  # the last two tokens before each position
        self.after = framed[self.lengths + 2], framed[np.minimum(self.lengths + 3, len(framed) - 1)]
        (u1, u2), (v1, v2) = self.before, self.after
        self.own = model.log_trigram(u1, u2, v1), model.log_trigram(u2, v1, v2)  # log p of `after` in its own context


def trigram_search(a: str, b: str, model: TrigramModel) -> tuple[CutText, CutText, CrossoverSearch]:
    """Cut two texts, and create the search for their crossovers with the scores of a trigram model.

    Example:
        >>> first, second, search = trigram_search(a, b, TrigramModel.load("trigrams.safetensors"))
        >>> search.best(alpha=0.5, count=1)[0].text(first, second)
    """
    first, second = CutText(a, b), CutText(b, a)
    contexts = CutContexts(first, model), CutContexts(second, model)
    scores = SeamScores(
        seams={(0, 1): seam_scores(*contexts, model), (1, 0): seam_scores(*contexts[::-1], model)},
        runs=(np.zeros(len(first) + 1), np.zeros(len(second) + 1)),
        lengths=(contexts[0].lengths, contexts[1].lengths),
        second_seam=_SECOND_SEAM,
    )
    return first, second, CrossoverSearch(first, second, scores)


def seam_scores(x: CutContexts, y: CutContexts, model: TrigramModel) -> FloatArray:
    """Score all seams x[:i] + y[j:], (n + 1, m + 1).

    With u the two tokens before the seam and v the two after it:
    0.6·Σ min(0, log p(v|u) − log p(v|own context)) + 0.4·(PMI(v₁) + ½·PMI(v₂)).
    """
    u1, u2 = (side[:, None] for side in x.before)
    v1, v2 = (side[None, :] for side in y.after)
    seam1, seam2 = model.log_trigram(u1, u2, v1), model.log_trigram(u2, v1, v2)
    cost = np.minimum(0, seam1 - y.own[0]) + np.minimum(0, seam2 - y.own[1])
    association = seam1 - model.log_unigram(v1) + 0.5 * (seam2 - model.log_unigram(v2))
    return _COST * cost + _ASSOCIATION * association
