"""The best crossovers of two texts.

A crossover is a run of chunks of one text, then a run of the other:

    a[:i] + b[j:]                 one seam
    a[:i] + b[j:k] + a[l:]        two seams

and the same with a and b exchanged. Its score is the sum of the scores of its runs and seams, minus penalties for
deviations from the requested ratio and length. The scores of seams come from a trigram model (`linda.middles`) or from
the decoder of a LINDA model (`linda.interpolation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, pairwise

import numpy as np
from numpy.typing import NDArray

from linda.crossovers.cuts import CutText, IntArray

FloatArray = NDArray[np.float64]
Run = tuple[int, int, int]  # text (0: a, 1: b), start, stop
Seam = tuple[int, int, int, int]  # x, i, y, j for x[:i] + y[j:]

# Maximum deviation of a crossover from the requested ratio and length.
SHARE_TOLERANCE = 0.1
WIDE_SHARE_TOLERANCE = 0.2  # for short texts without a crossover within SHARE_TOLERANCE
LENGTH_RANGE = (0.75, 1.334)  # 1.334, not 1.33: allows four words instead of three

SHARE_PENALTY, LENGTH_PENALTY = 4.0, 1.5
# For a ratio near 0 or 1, most crossovers within the tolerance have a share closer to ½, which biases the mean share.
# Crossovers farther from the ratio than this fraction of its distance to 0 or 1 are used only if there are no others.
NEAR_AN_END = 0.6
FARTHER_PENALTY = 100.0
UNBALANCED_PENALTY = 1.5  # for each unmatched bracket or quotation mark
SEAMS_PER_DIRECTION = 100  # best seams per direction that are combined to crossovers with several seams


@dataclass(frozen=True)
class Crossover:
    """Runs of chunks of a (0) and b (1), or of more texts, in order.

    Attributes:
        runs: (text, start, stop) of each run.
        share: Share of the words from a, not counting words that several texts have.
        score: Score; higher is better.
    """

    runs: tuple[Run, ...]
    share: float
    score: float

    def text(self, *texts: CutText) -> str:
        """Assemble the crossover from the texts that it was found for."""
        parts = []
        for t, start, stop in self.runs:
            parts += [texts[t].gap_before(start), texts[t].run(start, stop)]
        return "".join(parts)

    @property
    def seams(self) -> list[Seam]:
        """Boundaries between runs."""
        return [(x, stop, y, start) for (x, _, stop), (y, start, _) in pairwise(self.runs)]


@dataclass(frozen=True)
class SeamScores:
    """Scores of the parts of a crossover.

    Attributes:
        seams: For texts x and y, the score of y[j:] after x[:i], relative to y[j:] in its own context, (n + 1, m + 1).
        runs: For each text, cumulative scores of the chunks before each position, (n + 1,).
        lengths: For each text, the number of tokens before each position, for the length penalty.
        per_token: If above 0, the score is this factor times the mean per token, instead of the sum.
        second_seam: Added to the score of crossovers with two seams.
    """

    seams: Mapping[tuple[int, int], FloatArray]
    runs: Sequence[FloatArray]
    lengths: Sequence[IntArray]
    per_token: float = 0.0
    second_seam: float = 0.0

    def weighted(self, worth: FloatArray, length: IntArray | FloatArray) -> FloatArray:
        """Return the part of the score that comes from runs and seams; length: number of tokens without end marker."""
        return self.per_token * worth / (length + 1) if self.per_token else worth


class CrossoverSearch:
    """Finds the best crossovers of two texts.

    Example:
        >>> a, b = CutText(first, second), CutText(second, first)
        >>> [best] = CrossoverSearch(a, b, scores).best(alpha=0.5, count=1)
        >>> best.text(a, b)
    """

    def __init__(self, a: CutText, b: CutText, scores: SeamScores) -> None:
        self._texts = a, b
        self._scores = scores
        self._seams = {texts: inner_seams(matrix) for texts, matrix in scores.seams.items()}

    def best(self, alpha: float, count: int = 12, tolerance: float = SHARE_TOLERANCE) -> list[Crossover]:
        """Return the best crossovers for a ratio, best first; fewer than `count` if the texts are short or similar.

        Args:
            alpha: Share of a.
            count: Maximum number of crossovers.
            tolerance: Maximum distance of a crossover's share from alpha.

        Returns:
            Crossovers with different texts, each with content words of both and no repeated run of three chunks.
        """
        found = [
            crossover
            for first in (0, 1)
            for search in (self._with_one_seam, self._with_two_seams)
            for crossover in search(first, alpha, tolerance, count)
        ]
        return best_different(found, self._texts, count)

    def _with_one_seam(self, first: int, alpha: float, tolerance: float, count: int) -> list[Crossover]:
        """x[:i] + y[j:]."""
        n, m = len(self._texts[first]), len(self._texts[1 - first])
        i, j = np.ogrid[: n + 1, : m + 1]
        totals = self._totals((first, 0, i), (1 - first, j, m))
        score = self._scored(totals, self._seams[first, 1 - first], alpha, tolerance)
        return [
            Crossover(
                ((first, 0, row), (1 - first, column, m)),
                float(totals.share[row, column]),
                float(score[row, column]),
            )
            for row, column in largest(score, count)
        ]

    def _with_two_seams(self, first: int, alpha: float, tolerance: float, count: int) -> list[Crossover]:
        """x[:i] + y[j:k] + x[l:] with at least two chunks of y, and l ≥ i."""
        n = len(self._texts[first])
        there, back = self._best_seams[first], self._best_seams[1 - first]  # (i, j), (k, l)
        if not len(there) or not len(back):
            return []
        i, j = there[:, :1], there[:, 1:]  # (p, 1)
        k, end = back[None, :, 0], back[None, :, 1]  # (1, q)
        totals = self._totals((first, 0, i), (1 - first, j, k), (first, end, n))
        seams = self._seams[first, 1 - first][i, j] + self._seams[1 - first, first][k, end] + self._scores.second_seam
        score = self._scored(totals, np.where((k >= j + 2) & (end >= i), seams, -np.inf), alpha, tolerance)
        return [
            Crossover(
                (
                    (first, 0, int(i[row, 0])),
                    (1 - first, int(j[row, 0]), int(k[0, column])),
                    (first, int(end[0, column]), n),
                ),
                float(totals.share[row, column]),
                float(score[row, column]),
            )
            for row, column in largest(score, count)
        ]

    @cached_property
    def _best_seams(self) -> list[IntArray]:
        """The best seams from a to b, and from b to a, (p, 2) each."""
        found = [largest(self._seams[texts], SEAMS_PER_DIRECTION) for texts in ((0, 1), (1, 0))]
        return [np.array(seams, dtype=np.int64).reshape(-1, 2) for seams in found]

    def _totals(self, *runs: tuple[int, IntArray | int, IntArray | int]) -> _Totals:
        """Sum over runs (text, start, stop), whose positions are arrays that broadcast."""

        def total(before: Sequence[NDArray], of: int | None = None) -> NDArray:
            counts = [before[t][stop] - before[t][start] for t, start, stop in runs if of in (None, t)]
            return sum(counts[1:], start=counts[0])

        a, b = self._texts
        words_a, words_b = (total((a.words_before, b.words_before), of) for of in (0, 1))
        content_a, content_b = (total((a.content_words_before, b.content_words_before), of) for of in (0, 1))
        return _Totals(
            share=words_a / np.maximum(1, words_a + words_b),
            has_both=(content_a > 0) & (content_b > 0),
            length=total(self._scores.lengths),
            worth=total(self._scores.runs),
            unbalanced=self._unbalanced(total),
        )

    def _unbalanced(self, total: Callable[[tuple[NDArray, NDArray]], NDArray]) -> IntArray | None:
        """Count unmatched brackets and quotation marks; None if neither text has any."""
        a, b = self._texts
        if not any(x.brackets_before.any() or x.quotes_before.any() for x in (a, b)):
            return None
        # The texts may be unbalanced themselves: only what the crossover adds is penalized.
        brackets = np.abs(total((a.brackets_before, b.brackets_before)))
        quotes = total((a.quotes_before, b.quotes_before)) % 2
        brackets_allowed = max(abs(int(x.brackets_before[-1])) for x in (a, b))
        quotes_allowed = max(int(x.quotes_before[-1]) % 2 for x in (a, b))
        return np.maximum(0, brackets - brackets_allowed) + np.maximum(0, quotes - quotes_allowed)

    def _scored(self, totals: _Totals, seams: FloatArray, alpha: float, tolerance: float) -> FloatArray:
        """Return the scores, −∞ where the ratio or the length deviates too much."""
        lengths = self._scores.lengths
        wanted = alpha * lengths[0][-1] + (1 - alpha) * lengths[1][-1]  # L̃ of Eq. 3, not rounded
        distance = np.abs(totals.share - alpha)
        length = np.maximum(totals.length, 1) / max(wanted, 1)
        is_farther = distance > NEAR_AN_END * min(alpha, 1 - alpha) + 1e-9
        fits = (distance <= tolerance + 1e-9) & (length >= LENGTH_RANGE[0]) & (length <= LENGTH_RANGE[1])
        fits &= totals.has_both & (seams > -np.inf)
        penalty = (
            SHARE_PENALTY * distance[fits]
            + FARTHER_PENALTY * is_farther[fits]
            + LENGTH_PENALTY * np.abs(np.log(length[fits]))
        )
        if totals.unbalanced is not None:
            penalty += UNBALANCED_PENALTY * totals.unbalanced[fits]
        scores = np.full(fits.shape, -np.inf)  # few fit
        scores[fits] = self._scores.weighted(totals.worth[fits] + seams[fits], totals.length[fits]) - penalty
        return scores


@dataclass(frozen=True)
class _Totals:
    """Properties of many crossovers of the same form, as arrays of the same shape."""

    share: FloatArray
    has_both: NDArray[np.bool_]  # content words of both texts
    length: IntArray
    worth: FloatArray  # of the runs
    unbalanced: IntArray | None  # brackets and quotation marks; None: none


def best_different(found: Iterable[Crossover], texts: Sequence[CutText], count: int) -> list[Crossover]:
    """Return the best crossovers with different texts, best first, without those that repeat themselves."""
    # If both texts have the same word at a seam, several crossovers give the same text.
    by_text: dict[tuple[str, ...], Crossover] = {}
    chunks = [text.chunks for text in texts]
    for crossover in sorted(found, key=lambda crossover: -crossover.score):
        by_text.setdefault(tuple(chain(*_parts(crossover, chunks))), crossover)
    folded = [[chunk.casefold() for chunk in text] for text in chunks]
    return list(islice((crossover for crossover in by_text.values() if not _repeats(crossover, folded)), count))


def _parts(crossover: Crossover, chunks: Sequence[list[str]]) -> list[list[str]]:
    """Return the chunks of every run, given the chunks of every text."""
    return [chunks[t][start:stop] for t, start, stop in crossover.runs]


def _repeats(crossover: Crossover, chunks: Sequence[list[str]]) -> bool:
    """Whether three consecutive chunks occur twice, or the same chunk is on both sides of a seam."""
    parts = _parts(crossover, chunks)
    if any(before and after and before[-1] == after[0] for before, after in pairwise(parts)):
        return True
    joined = list(chain(*parts))
    trigrams = list(zip(joined, joined[1:], joined[2:], strict=False))
    return len(set(trigrams)) < len(trigrams)


def naive_splice(a: str, b: str, alpha: float = 0.5) -> str:
    """Join the first α of a and the last 1 − α of b, regardless of the words: a baseline."""
    first, second = CutText(a, b), CutText(b, a)
    i, j = (int(alpha * len(text) + 0.5) for text in (first, second))
    return Crossover(((0, 0, i), (1, j, len(second))), alpha, 0.0).text(first, second).strip()


def inner_seams(seams: FloatArray) -> FloatArray:
    """Exclude seams with an empty side, and seams after which the second text begins with its first chunk."""
    seams = seams.copy()
    seams[[0, -1], :] = -np.inf
    seams[:, [0, -1]] = -np.inf
    return seams


def largest(scores: FloatArray, count: int) -> list[tuple[int, int]]:
    """Return the positions of the largest finite entries of a matrix, largest first; ties in reading order."""
    flat = scores.ravel()
    chosen = np.flatnonzero(flat > -np.inf)
    if len(chosen) > count:
        found = flat[chosen]
        chosen = chosen[found >= np.partition(found, len(found) - count)[len(found) - count]]
    chosen = chosen[np.argsort(-flat[chosen], kind="stable")][:count]
    return [(int(place) // scores.shape[1], int(place) % scores.shape[1]) for place in chosen]
