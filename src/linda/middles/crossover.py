"""Crossovers of two texts: the beginning of one joined to the end of the other, at the seam that reads best.

A *cut text* is a text split at white space. A crossover keeps a run of words of one text, then of the other:

    a[:i] + b[j:]                 one seam
    a[:i] + b[j:k] + a[l:]        two seams

and the same with a and b exchanged. Only the words around a seam decide how it reads, so a trigram model scores every
seam of a pair at once, in two matrices: S[i, j] for a[:i] → b[j:], and its twin for b[:j] → a[i:].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from linda.measures.word_overlap import FUNCTION_WORDS, words
from linda.middles.ngrams import END, START, FloatArray, IntArray, TrigramModel, tokens_of

# How far a crossover may be from the ratio and the length asked for.
SHARE_TOLERANCE = 0.1
LENGTH_RANGE = (0.7, 1.4)

# Weights of the score. The first two weigh what the seam costs compared to each word's own context, and how strongly
# its two sides attract each other; a stock phrase has the first, but not the second.
_COST, _ATTRACTION = 0.6, 0.4
_SHARE_PENALTY, _LENGTH_PENALTY = 4.0, 1.5
_SECOND_SEAM_PENALTY = 2.5
_UNBALANCED_PENALTY = 1.5  # for each bracket or quotation mark without its partner
_SEAMS_PER_DIRECTION = 40  # two seams are chosen among so many of each direction

Cut = tuple[int, int, int]  # text (0 or 1), first chunk, chunk after the last


@dataclass(frozen=True)
class Crossover:
    """Runs of whitespace words of a (0) and b (1), in order.

    Attributes:
        runs: (text, start, stop) of each run.
        share: words from a divided by words from either, not counting words that both texts have.
        score: the larger, the better it reads and the nearer it is to the ratio and length asked for.
    """

    runs: tuple[Cut, ...]
    share: float
    score: float

    def text(self, a: str, b: str) -> str:
        """The crossover of the two texts that it was found for."""
        chunks = (a.split(), b.split())
        return " ".join(word for text, start, stop in self.runs for word in chunks[text][start:stop])


class CutText:
    """A text split at white space, with the numbers that the search needs for every place where it can be cut.

    Args:
        text: any text.
        other: the text that it is mixed with. Words that both have tell nothing about the origin of a crossover, so
            only the others are counted.
        model: knows the words.
    """

    def __init__(self, text: str, other: str, model: TrigramModel) -> None:
        self.chunks = text.split()
        shared = frozenset(words(other))
        own = [[word for word in words(chunk) if word not in shared] for chunk in self.chunks]
        tokens = [tokens_of(chunk) or [chunk] for chunk in self.chunks]
        self.tokens = model.ids([token for chunk in tokens for token in chunk])
        # Tokens, own words, own content words and open brackets before each of the n + 1 places between chunks.
        self.tokens_before = _running(map(len, tokens))
        self.words_before = _running(map(len, own))
        self.content_before = _running(sum(word not in FUNCTION_WORDS for word in chunk) for chunk in own)
        self.brackets_before = _running(_opened(chunk) for chunk in self.chunks)
        self.quotes_before = _running(chunk.count('"') for chunk in self.chunks)
        self._model = model

    def __len__(self) -> int:
        return len(self.chunks)

    def _token(self, places: IntArray) -> IntArray:
        """Tokens by place: start markers before the first, end markers after the last."""
        framed = np.concatenate([[START, START], self.tokens, [END, END]])
        return framed[places + 2]

    @cached_property
    def before(self) -> tuple[IntArray, IntArray]:
        """The two tokens before each place between chunks, (n + 1,) each."""
        return self._token(self.tokens_before - 2), self._token(self.tokens_before - 1)

    @cached_property
    def after(self) -> tuple[IntArray, IntArray]:
        """The two tokens after each place between chunks."""
        return self._token(self.tokens_before), self._token(np.minimum(self.tokens_before + 1, len(self.tokens)))

    @cached_property
    def own_scores(self) -> tuple[FloatArray, FloatArray]:
        """log p of the two tokens after each place, in their own context."""
        (u1, u2), (v1, v2) = self.before, self.after
        return self._model.log_trigram(u1, u2, v1), self._model.log_trigram(u2, v1, v2)


def seam_scores(first: CutText, second: CutText, model: TrigramModel) -> FloatArray:
    """How well second[j:] follows first[:i], (len(first) + 1, len(second) + 1).

    With u the two tokens before the seam and v the two after it:
    0.6·Σ min(0, log p(v|u) − log p(v|own context)) + 0.4·(PMI(v₁) + ½·PMI(v₂)).
    Places that would leave a side empty, or begin with the first word of the second text, are −∞.
    """
    u1, u2 = (side[:, None] for side in first.before)
    v1, v2 = (side[None, :] for side in second.after)
    own1, own2 = second.own_scores
    seam1, seam2 = model.log_trigram(u1, u2, v1), model.log_trigram(u2, v1, v2)
    cost = np.minimum(0, seam1 - own1) + np.minimum(0, seam2 - own2)
    attraction = seam1 - model.log_unigram(v1) + 0.5 * (seam2 - model.log_unigram(v2))
    scores = _COST * cost + _ATTRACTION * attraction
    scores[[0, -1], :] = -np.inf
    scores[:, [0, -1]] = -np.inf
    return scores


class CrossoverSearch:
    """All crossovers of two texts, scored by a trigram model.

    Example:
        >>> search = CrossoverSearch(a, b, TrigramModel.load("trigrams.safetensors"))
        >>> [best] = search.best(alpha=0.5, count=1)
        >>> best.text(a, b)
    """

    def __init__(self, a: str, b: str, model: TrigramModel) -> None:
        self.texts = CutText(a, b, model), CutText(b, a, model)
        # [0]: a then b; [1]: b then a.
        self.seams = tuple(seam_scores(self.texts[t], self.texts[1 - t], model) for t in (0, 1))

    def best(self, alpha: float, count: int = 12) -> list[Crossover]:
        """The best crossovers for a ratio, best first; fewer than `count`, or none, if the texts are short."""
        found = [
            crossover
            for first in (0, 1)
            for search in (self._with_one_seam, self._with_two_seams)
            for crossover in search(first, alpha, count)
        ]
        found.sort(key=lambda crossover: -crossover.score)
        # Where both texts have the same word at a seam, several crossovers are one text.
        by_text: dict[tuple[str, ...], Crossover] = {}
        for crossover in found:
            by_text.setdefault(self._chunks(crossover), crossover)
        return [crossover for crossover in by_text.values() if not self._repeats(crossover)][:count]

    def _chunks(self, crossover: Crossover) -> tuple[str, ...]:
        return tuple(chunk for t, start, stop in crossover.runs for chunk in self.texts[t].chunks[start:stop])

    def _with_one_seam(self, first: int, alpha: float, count: int) -> list[Crossover]:
        x, y = self.texts[first], self.texts[1 - first]
        i, j = np.ogrid[: len(x) + 1, : len(y) + 1]
        totals = _Totals.of((x, 0, i), (y, j, len(y)))
        score = totals.scored(self.seams[first], first, alpha, self._wanted_length(alpha))
        return [
            Crossover(
                ((first, 0, int(row)), (1 - first, int(column), len(y))),
                float(totals.share(first)[row, column]),
                float(score[row, column]),
            )
            for row, column in _largest(score, count)
        ]

    def _with_two_seams(self, first: int, alpha: float, count: int) -> list[Crossover]:
        """x[:i] + y[j:k] + x[l:], of at least two chunks of y; x never goes backwards."""
        x, y = self.texts[first], self.texts[1 - first]
        there, back = (
            np.array(_largest(self.seams[t], _SEAMS_PER_DIRECTION), dtype=np.int64).reshape(-1, 2)  # (i, j), (k, l)
            for t in (first, 1 - first)
        )
        if not len(there) or not len(back):
            return []
        i, j = there[:, :1], there[:, 1:]  # (m, 1)
        k, end = back[None, :, 0], back[None, :, 1]  # (1, n)
        totals = _Totals.of((x, 0, i), (y, j, k), (x, end, len(x)))
        seams = self.seams[first][i, j] + self.seams[1 - first][k, end] - _SECOND_SEAM_PENALTY
        seams = np.where((k >= j + 2) & (end >= i), seams, -np.inf)
        score = totals.scored(seams, first, alpha, self._wanted_length(alpha))
        return [
            Crossover(
                (
                    (first, 0, int(i[row, 0])),
                    (1 - first, int(j[row, 0]), int(k[0, column])),
                    (first, int(end[0, column]), len(x)),
                ),
                float(totals.share(first)[row, column]),
                float(score[row, column]),
            )
            for row, column in _largest(score, count)
        ]

    def _wanted_length(self, alpha: float) -> float:
        """L̃ of Eq. 3, in tokens of the trigram model."""
        return alpha * len(self.texts[0].tokens) + (1 - alpha) * len(self.texts[1].tokens)

    def _repeats(self, crossover: Crossover) -> bool:
        """Whether a run of three tokens comes twice, or one token twice in a row where neither text has it."""
        parts = [
            self.texts[t].tokens[self.texts[t].tokens_before[start] : self.texts[t].tokens_before[stop]]
            for t, start, stop in crossover.runs
        ]
        if any(len(x) and len(y) and x[-1] == y[0] for x, y in pairwise(parts)):
            return True
        run = np.concatenate(parts).tolist()
        trigrams = list(zip(run, run[1:], run[2:], strict=False))
        return len(set(trigrams)) < len(trigrams)


@dataclass(frozen=True)
class _Totals:
    """What many crossovers of the same form hold; arrays of one shape that broadcast."""

    words: tuple[IntArray, IntArray]  # of the text that comes first, of the other; only words that the two do not share
    has_both: NDArray[np.bool_]  # content words of both
    tokens: IntArray
    unbalanced: IntArray

    @classmethod
    def of(cls, *runs: tuple[CutText, IntArray | int, IntArray | int]) -> _Totals:
        """Runs (text, start, stop) that alternate between two texts."""

        def total(name: str, parity: int | None = None) -> IntArray:
            chosen = [run for number, run in enumerate(runs) if parity is None or number % 2 == parity]
            counts = [getattr(text, name)[stop] - getattr(text, name)[start] for text, start, stop in chosen]
            return sum(counts[1:], start=counts[0])

        # Each text may be unbalanced itself: only what the crossover adds is held against it.
        x, y = runs[0][0], runs[1][0]
        brackets = np.abs(total("brackets_before")) - max(abs(x.brackets_before[-1]), abs(y.brackets_before[-1]))
        quotes = total("quotes_before") % 2 - max(x.quotes_before[-1] % 2, y.quotes_before[-1] % 2)
        unbalanced = np.maximum(0, brackets) + np.maximum(0, quotes)
        return cls(
            words=(total("words_before", 0), total("words_before", 1)),
            has_both=(total("content_before", 0) > 0) & (total("content_before", 1) > 0),
            tokens=total("tokens_before"),
            unbalanced=unbalanced,
        )

    def share(self, first: int) -> FloatArray:
        """Of the words of a, where `first` is the number of the text that comes first."""
        all_words = np.maximum(1, self.words[0] + self.words[1])
        return self.words[first] / all_words

    def scored(self, seams: NDArray[np.float64], first: int, alpha: float, wanted_length: float) -> FloatArray:
        """Seam scores less the distance from ratio and length; −∞ where either is too far off."""
        distance = np.abs(self.share(first) - alpha)
        length = np.maximum(self.tokens, 1) / wanted_length
        fits = (distance <= SHARE_TOLERANCE + 1e-9) & (length >= LENGTH_RANGE[0]) & (length <= LENGTH_RANGE[1])
        fits &= self.has_both
        penalty = (
            _SHARE_PENALTY * distance + _LENGTH_PENALTY * np.abs(np.log(length)) + _UNBALANCED_PENALTY * self.unbalanced
        )
        return np.where(fits, seams - penalty, -np.inf)


def _running(counts: object) -> IntArray:
    """0, c₁, c₁ + c₂ …"""
    return np.concatenate([[0], np.cumsum(np.fromiter(counts, dtype=np.int64))])  # type: ignore[call-overload]


def _opened(chunk: str) -> int:
    """Brackets that a chunk opens, less those that it closes."""
    return sum(chunk.count(mark) for mark in "([{") - sum(chunk.count(mark) for mark in ")]}")


def _largest(scores: FloatArray, count: int) -> list[tuple[int, int]]:
    """The places of the largest finite numbers of a matrix, largest first; ties in reading order."""
    flat = scores.ravel()
    if len(flat) > count:
        bound = np.partition(flat, len(flat) - count)[len(flat) - count]
        chosen = np.flatnonzero(flat >= max(bound, -np.finfo(float).max))
    else:
        chosen = np.flatnonzero(flat > -np.inf)
    chosen = chosen[np.argsort(-flat[chosen], kind="stable")][:count]
    return [(int(place) // scores.shape[1], int(place) % scores.shape[1]) for place in chosen]
