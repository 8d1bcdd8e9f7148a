"""Random pairs of sentences: what a model is calibrated and measured on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from linda.errors import LindaError

if TYPE_CHECKING:
    from linda.interpolator import Interpolator

Pair = tuple[str, str]


def draw_pairs(sentences: Iterable[str], count: int, seed: int = 0) -> list[Pair]:
    """`count` pairs of different sentences, by the seed alone; none is used again before all are used up."""
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


def mix_at_ratios(
    interpolator: Interpolator, pairs: Sequence[Pair], ratios: Sequence[float], **settings: Any
) -> list[list[str]]:
    """The texts of all pairs at each ratio. One call for all: each text is encoded once, and batches are full."""
    a, b = [first for first, _ in pairs], [second for _, second in pairs]
    each = [ratio for ratio in ratios for _ in pairs]
    texts = interpolator.mix(a * len(ratios), b * len(ratios), each, **settings)
    return [texts[start : start + len(pairs)] for start in range(0, len(texts), len(pairs))]
