"""Random pairs of sentences, to calibrate and to evaluate a model."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from linda.errors import LindaError

Pair = tuple[str, str]


def draw_pairs(sentences: Iterable[str], count: int, seed: int = 0) -> list[Pair]:
    """Draw `count` random pairs of different sentences. All sentences are used before any is repeated."""
    pool = list(dict.fromkeys(sentences))
    if len(pool) < 2:
        raise LindaError(f"pairs need at least two different sentences, got {len(pool)}")
    if count < 1:
        raise LindaError(f"the number of pairs is {count}; it must be 1 or more")
    random = Random(seed)
    pairs: list[Pair] = []
    while len(pairs) < count:
        random.shuffle(pool)
        pairs += zip(pool[::2], pool[1::2], strict=False)
    return pairs[:count]
