"""The best crossovers of three or more texts: one run of each text, in any order.

    x[:i] + y[j:k] + … + z[l:]

The first run is the beginning of its text, the last run the end of its text. Scores and penalties are those of two
texts (`search`). This is a beam search: runs are added one by one, and after each run the best beginnings are kept for
every text that may follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linda.crossovers.cuts import CutText, IntArray
from linda.crossovers.search import (
    FARTHER_PENALTY,
    LENGTH_PENALTY,
    LENGTH_RANGE,
    NEAR_AN_END,
    SEAMS_PER_DIRECTION,
    SHARE_PENALTY,
    SHARE_TOLERANCE,
    UNBALANCED_PENALTY,
    Crossover,
    FloatArray,
    SeamScores,
    best_different,
    inner_seams,
    largest,
)

_BEGINNINGS = 200  # kept after each run, for each text that follows
_WORDS, _CONTENT, _BRACKETS, _QUOTES, _LENGTH, _WORTH = range(6)  # columns of counts


class ChainSearch:
    """Finds the best crossovers of three or more texts.

    Example:
        >>> [best] = ChainSearch(texts, scores).best(weights=[0.5, 0.3, 0.2], count=1)
        >>> best.text(*texts)
    """

    def __init__(self, texts: Sequence[CutText], scores: SeamScores) -> None:
        self._texts, self._scores = texts, scores
        self._seams = {pair: inner_seams(matrix) for pair, matrix in scores.seams.items()}
        self._before = [
            np.stack(
                [
                    text.words_before,
                    text.content_words_before,
                    text.brackets_before,
                    text.quotes_before,
                    lengths,
                    worth,
                ],
                axis=1,
            )
            for text, lengths, worth in zip(texts, scores.lengths, scores.runs, strict=True)
        ]  # of each text, (n + 1, 6)

    def best(self, weights: Sequence[float], count: int = 12, tolerance: float = SHARE_TOLERANCE) -> list[Crossover]:
        """Return the best crossovers for the weights, best first; fewer than `count` if the texts are short or similar.

        Args:
            weights: Share of each text; they sum to 1.
            count: Maximum number of crossovers.
            tolerance: Maximum distance of a share from its weight.

        Returns:
            Crossovers with different texts, each with content words of all texts and no repeated run of three chunks.
        """
        words, length = (self._mean_of(column, weights) for column in (_WORDS, _LENGTH))
        wanted = _Wanted(np.array(weights), words, length, tolerance)
        begun = [_Beginnings.of_text(t) for t in range(len(self._texts))]
        for left in range(len(self._texts) - 1, 0, -1):  # number of texts that still follow
            begun = [self._begun_with(y, begun, wanted, is_last=left == 1) for y in range(len(self._texts))]
        found = [crossover for y in begun for crossover in self._ended(y, wanted, count)]
        return best_different(found, self._texts, count)

    def _mean_of(self, column: int, weights: Sequence[float]) -> float:
        return sum(weight * float(before[-1, column]) for weight, before in zip(weights, self._before, strict=True))

    def _begun_with(self, y: int, begun: Sequence[_Beginnings], wanted: _Wanted, is_last: bool) -> _Beginnings:
        """Return the best beginnings followed by text y, or all of them if this is the last text."""
        found = [self._followed(x, y, wanted, is_last) for x in begun if x.text != y]
        columns = zip(*((each.starts, each.runs, each.words, each.counts) for each in found), strict=True)
        together = _Beginnings(y, *map(np.concatenate, columns))
        if is_last:
            return together
        off = np.abs(together.words / wanted.words - wanted.weights[together.runs[:, :, 0]]).max(axis=1)
        worth = self._scores.weighted(together.counts[:, _WORTH], together.counts[:, _LENGTH])
        return together.rows(np.argsort(SHARE_PENALTY * off - worth, kind="stable")[:_BEGINNINGS])

    def _followed(self, x: _Beginnings, y: int, wanted: _Wanted, is_last: bool) -> _Beginnings:
        """Close the open run of x's text at the best seams, and open one of text y."""
        x = x.rows(np.flatnonzero((x.runs[:, :, 0] != y).all(axis=1)))
        before_x, before_y = self._before[x.text], self._before[y]
        words_x, left_of_y = before_x[:, _WORDS], before_y[-1, _WORDS] - before_y[:, _WORDS]
        fits_x = words_x >= wanted.min_words[x.text]
        fits_y = left_of_y >= wanted.min_words[y]
        if is_last:
            fits_y &= left_of_y <= wanted.max_words[y]
        if not x.runs.shape[1]:  # the first run begins with its text
            fits_x &= words_x <= wanted.max_words[x.text]
        seams = np.where(fits_x[:, None] & fits_y, self._seams[x.text, y], -np.inf)
        places = np.array(largest(seams, SEAMS_PER_DIRECTION), dtype=np.int64).reshape(-1, 2)
        stop, start = places.T  # (q,)
        run = before_x[stop] - before_x[x.starts][:, None]  # (p, q, 6)
        run[:, :, _WORTH] += seams[stop, start]
        fits = (
            (stop > x.starts[:, None])
            & (run[:, :, _CONTENT] > 0)
            & (run[:, :, _WORDS] >= wanted.min_words[x.text])
            & (run[:, :, _WORDS] <= wanted.max_words[x.text])
        )
        row, seam = np.nonzero(fits)
        closed = np.stack([np.full(len(row), x.text), x.starts[row], stop[seam]], axis=1)
        return _Beginnings(
            y,
            start[seam],
            np.concatenate([x.runs[row], closed[:, None]], axis=1),
            np.concatenate([x.words[row], run[row, seam, _WORDS, None]], axis=1),
            x.counts[row] + run[row, seam],
        )

    def _ended(self, begun: _Beginnings, wanted: _Wanted, count: int) -> Iterator[Crossover]:
        """Close the last run at the end of its text."""
        before, stop = self._before[begun.text], len(self._texts[begun.text])
        last = before[stop] - before[begun.starts]  # (p, 6)
        closed = np.stack([np.full(len(last), begun.text), begun.starts, np.full(len(last), stop)], axis=1)
        runs = np.concatenate([begun.runs, closed[:, None]], axis=1)  # (p, n, 3)
        words = np.concatenate([begun.words, last[:, _WORDS, None]], axis=1)  # (p, n)
        counts = begun.counts + last
        shares = words / np.maximum(1, words.sum(axis=1, keepdims=True))
        weights = wanted.weights[runs[:, :, 0]]  # (p, n)
        distances = np.abs(shares - weights)
        distance = distances.max(axis=1)
        is_farther = (distances > NEAR_AN_END * weights + 1e-9).any(axis=1)
        length = np.maximum(counts[:, _LENGTH], 1) / max(wanted.length, 1)
        penalty = (
            SHARE_PENALTY * distance
            + FARTHER_PENALTY * is_farther
            + LENGTH_PENALTY * np.abs(np.log(length))
            + UNBALANCED_PENALTY * self._unbalanced(counts)
        )
        fits = (
            (last[:, _CONTENT] > 0)
            & (distance <= wanted.tolerance + 1e-9)
            & (length >= LENGTH_RANGE[0])
            & (length <= LENGTH_RANGE[1])
        )
        score = np.where(fits, self._scores.weighted(counts[:, _WORTH], counts[:, _LENGTH]) - penalty, -np.inf)
        for row, _ in largest(score[:, None], count):
            share = float(shares[row][runs[row, :, 0] == 0].sum())
            yield Crossover(tuple(map(tuple, runs[row].tolist())), share, float(score[row]))

    def _unbalanced(self, counts: FloatArray) -> FloatArray:
        """Count unmatched brackets and quotation marks, beyond those of the texts themselves."""
        brackets = max(abs(float(before[-1, _BRACKETS])) for before in self._before)
        quotes = max(float(before[-1, _QUOTES]) % 2 for before in self._before)
        return np.maximum(0, np.abs(counts[:, _BRACKETS]) - brackets) + np.maximum(0, counts[:, _QUOTES] % 2 - quotes)


@dataclass(frozen=True)
class _Wanted:
    weights: FloatArray  # (n,)
    words: float  # number of words of the mixture, without words that several texts have
    length: float  # L̃ of Eq. 3 for n texts, not rounded
    tolerance: float  # of shares

    @property
    def min_words(self) -> FloatArray:
        """Minimum number of words of each text's run, for the requested share and length."""
        return (self.weights - self.tolerance) * self.words * LENGTH_RANGE[0]

    @property
    def max_words(self) -> FloatArray:
        """Maximum number of words of each text's run."""
        return (self.weights + self.tolerance) * self.words * LENGTH_RANGE[1]


@dataclass(frozen=True)
class _Beginnings:
    """Beginnings of crossovers: closed runs, and an open run of one text."""

    text: int  # of the open run
    starts: IntArray  # of the open run, (p,)
    runs: IntArray  # closed runs (text, start, stop), (p, r, 3)
    words: FloatArray  # of each closed run, (p, r)
    counts: FloatArray  # sums over closed runs, seams included, (p, 6)

    @classmethod
    def of_text(cls, text: int) -> _Beginnings:
        return cls(text, np.zeros(1, np.int64), np.zeros((1, 0, 3), np.int64), np.zeros((1, 0)), np.zeros((1, 6)))

    def rows(self, rows: NDArray[np.int64]) -> _Beginnings:
        return _Beginnings(self.text, self.starts[rows], self.runs[rows], self.words[rows], self.counts[rows])
