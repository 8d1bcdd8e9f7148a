"""Crossovers without a neural model: baselines for LINDA.

`splice` joins the beginning of one text to the end of the other, regardless of the words. `crossover` cuts where a
trigram model finds that the two sides fit best. A similar published method is TreeMix (Zhang et al., NAACL 2022),
which exchanges subtrees of a parse.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Self

import numpy as np

from linda.crossovers import naive_splice
from linda.errors import LindaError
from linda.files.paths import check_regular_file
from linda.methods import AugmentationMethod
from linda.middles.ngrams import TrigramModel
from linda.middles.seams import trigram_search

_DRAWN_FROM = 12  # crossovers that `sampling` draws from
_JITTER = 0.1  # how far `sampling` moves the ratio of a splice


class Splice(AugmentationMethod):
    """Join the first α of a to the last 1 − α of b. `sampling`: in random order, with a slightly different cut."""

    name = "splice"
    needs_partner = True
    _draws = False

    @property
    def sampling(self) -> Self:
        """The same, with random draws."""
        twin = copy(self)
        twin._draws = True
        return twin

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        if b is None or alpha is None:
            raise TypeError(f"{self.name} needs a partner and a ratio for each row")
        return [self._cross(*row) for row in zip(a, b, alpha, seeds, strict=True)]

    def _cross(self, a: str, b: str, alpha: float, seed: int) -> str:
        if not self._draws:
            return naive_splice(a, b, alpha)
        random = np.random.default_rng(seed)
        ratio = float(np.clip(alpha + random.uniform(-_JITTER, _JITTER), 0.0, 1.0))
        return naive_splice(a, b, ratio) if random.random() < 0.5 else naive_splice(b, a, 1 - ratio)


class TrigramCrossover(Splice):
    """Cut and join where a trigram model finds the best seam; fall back on `splice` for texts too short to search.

    `sampling` draws one of the best crossovers.

    Args:
        trigrams: File written by `linda middles table` from any text like yours.

    Example:
        TrigramCrossover("trigrams.safetensors").texts(["Who won the race?"], ["Who wrote this book?"], [0.5], [0])
    """

    name = "crossover"

    def __init__(self, trigrams: str | Path) -> None:
        self._trigrams = TrigramModel.load(trigrams)

    def _cross(self, a: str, b: str, alpha: float, seed: int) -> str:
        first, second, search = trigram_search(a, b, self._trigrams)
        found = search.best(alpha, _DRAWN_FROM if self._draws else 1)
        if not found:
            return super()._cross(a, b, alpha, seed)
        chosen = int(np.random.default_rng(seed).integers(len(found))) if self._draws else 0
        return found[chosen].text(first, second)


def check_trigrams(methods: set[str], trigrams: str | Path | None) -> None:
    """Raise a `LindaError` unless there is a trigram table if, and only if, `crossover` is among the methods."""
    needed = TrigramCrossover.name in methods
    if needed and trigrams is None:
        raise LindaError(
            "crossover needs a trigram table (trigrams=FILE, --trigrams FILE); build one from text like yours with "
            "`linda middles table sentences.txt --output trigrams.safetensors`"
        )
    if trigrams is not None:
        if not needed:
            raise LindaError(f"the trigram table {trigrams} has no effect: only the method crossover uses one")
        check_regular_file(trigrams)
