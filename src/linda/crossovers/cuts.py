"""Positions where a text can be cut: between words; in scripts written without spaces, between characters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from linda.measures.word_overlap import FUNCTION_WORDS, UNSPACED, words

IntArray = NDArray[np.int64]

_CHUNK = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")


class CutText:
    """A text as a sequence of n chunks, with n + 1 positions where it can be cut.

    Args:
        text: Any text.
        other: The text it is mixed with. Only words that the other text does not contain are counted: they show how
            much of a crossover comes from this text.
    """

    def __init__(self, text: str, other: str) -> None:
        self.text = text
        spans = [match.span() for match in _CHUNK.finditer(text)]
        self._starts, self.ends = [start for start, _ in spans], [end for _, end in spans]
        self.chunks = [text[start:end] for start, end in spans]
        shared = frozenset(words(other))
        self._own_words = [[word for word in words(chunk) if word not in shared] for chunk in self.chunks]

    def __len__(self) -> int:
        return len(self.chunks)

    def run(self, start: int, stop: int) -> str:
        """Return the text of chunks start … stop − 1."""
        return self.text[self._starts[start] : self.ends[stop - 1]] if start < stop else ""

    def gap_before(self, place: int) -> str:
        """Return the white space before chunk `place`, if it is between two chunks."""
        return self.text[self.ends[place - 1] : self._starts[place]] if 0 < place < len(self) else ""

    @cached_property
    def words_before(self) -> IntArray:
        """Number of own words before each position, (n + 1,)."""
        return running_total(map(len, self._own_words))

    @cached_property
    def content_words_before(self) -> IntArray:
        """Number of own content words before each position, (n + 1,)."""
        return running_total(sum(word not in FUNCTION_WORDS for word in chunk) for chunk in self._own_words)

    @cached_property
    def brackets_before(self) -> IntArray:
        """Number of open brackets at each position, (n + 1,)."""
        return running_total(_opened(chunk) for chunk in self.chunks)

    @cached_property
    def quotes_before(self) -> IntArray:
        """Number of straight double quotes before each position, (n + 1,)."""
        return running_total(chunk.count('"') for chunk in self.chunks)


def running_total(counts: Iterable[int]) -> IntArray:
    """Return the cumulative sums 0, c₁, c₁ + c₂ …."""
    return np.concatenate([[0], np.cumsum(np.fromiter(counts, dtype=np.int64))]).astype(np.int64)


def _opened(chunk: str) -> int:
    """Return the number of opening brackets of a chunk minus that of closing brackets."""
    return sum(map(chunk.count, "([{")) - sum(map(chunk.count, ")]}"))
