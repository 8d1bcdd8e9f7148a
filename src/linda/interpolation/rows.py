"""Rows to mix: two texts and a ratio, or several texts and their weights. All are checked before computing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from linda.errors import MAX_SEED, LindaError, checked_integer, checked_ratio, checked_text, checked_weights, shortened
from linda.measures import same_text

PairRow = tuple[str, str, float, int]  # a, b, alpha, seed
TextsRow = tuple[Sequence[str], Sequence[float], int]  # texts, weights, seed
Row = PairRow | TextsRow


def rows_to_mix(a: Any, b: Any, alpha: Any, weights: Any, seed: int) -> tuple[Sequence[Row], bool]:
    """Return the checked rows of a call of `Interpolator.mix`, and whether it is a single row instead of a list."""
    if b is None and isinstance(a, Iterable) and not isinstance(a, str):
        if alpha != 0.5:
            raise LindaError(f"alpha={shortened(alpha)} is for two texts a and b; for a list of texts, give weights")
        texts = list(a)
        is_single = all(isinstance(text, str) for text in texts)
        return checked_text_rows([[text] for text in texts] if is_single else texts, weights, seed), is_single
    if weights is not None:
        raise LindaError("weights are for a list of texts: mix([a, b, c], weights=[0.5, 0.3, 0.2])")
    if isinstance(a, str) and isinstance(b, str):
        return checked_rows([a], [b], alpha, seed), True
    return checked_rows(a, b, alpha, seed), False


def checked_rows(a: str | list[str], b: str | list[str], alpha: float | Sequence[float], seed: int) -> list[PairRow]:
    """Check all rows before anything is computed, so that an error in the last pair is reported at once."""
    if isinstance(a, str) or isinstance(b, str):
        raise LindaError("a and b must both be texts or both be lists of texts, got one of each")
    a, b = list(a), list(b)
    is_list = isinstance(alpha, Iterable) and not isinstance(alpha, str)
    ratios: list[Any] = list(alpha) if is_list else [alpha] * len(a)  # type: ignore[arg-type]
    if not len(a) == len(b) == len(ratios):
        raise LindaError(f"got {len(a)} texts a, {len(b)} texts b, {len(ratios)} ratios; give the same number of each")
    rows = []
    for number, (first, second, ratio, row_seed) in enumerate(
        zip(a, b, ratios, row_seeds(seed), strict=False), start=1
    ):
        which = f" of pair {number}" if len(a) > 1 else ""
        checked_text(first, f"text a{which}")
        checked_text(second, f"text b{which}")
        rows.append((first, second, checked_ratio(ratio, f"alpha{which}"), row_seed))
    return rows


def checked_text_rows(texts: Sequence[Sequence[str]], weights: Any, seed: int) -> list[TextsRow]:
    """Check parallel lists of texts and their weights: one list for all rows, one per row, or None (equal weights)."""
    if any(isinstance(column, str) or not isinstance(column, Iterable) for column in texts):
        raise LindaError(
            "the texts to mix must all be texts or all be lists of texts, got a mixture of texts and lists"
        )
    columns = [list(column) for column in texts]
    lengths = [len(column) for column in columns]
    if len({*lengths}) > 1:
        raise LindaError(f"the lists of texts have {', '.join(map(str, lengths))} texts; give the same number in each")
    count = lengths[0] if lengths else 0
    weights = [1.0] * len(columns) if weights is None else weights
    weights = weights.tolist() if hasattr(weights, "tolist") else weights  # arrays and tensors
    if not isinstance(weights, Iterable) or isinstance(weights, str):
        raise LindaError(f"weights is {shortened(weights)}; give a list of numbers, one per text")
    weights = list(weights)
    is_per_row = bool(weights) and all(isinstance(each, Sequence) and not isinstance(each, str) for each in weights)
    if is_per_row and len(weights) != count:
        raise LindaError(f"got {len(weights)} lists of weights for {count} rows; give one list for all, or one per row")
    each_row = weights if is_per_row else [weights] * count
    if not count:  # weights for no rows are checked too
        checked_weights(weights, len(columns))
    rows = zip(zip(*columns, strict=True), each_row, row_seeds(seed), strict=False)
    return [
        (*checked_mixture(row, row_weights, f" of row {number}" if count > 1 else ""), row_seed)
        for number, (row, row_weights, row_seed) in enumerate(rows, start=1)
    ]


def checked_mixture(texts: Sequence[str], weights: Any, which: str = "") -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Check the texts of a row and their weights; `which` names the row in messages."""
    for number, text in enumerate(texts, start=1):
        checked_text(text, f"text {number}{which}")
    return tuple(texts), checked_weights(weights, len(texts), which)


def merged_texts(texts: Sequence[str], weights: Sequence[float]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Leave out texts of weight 0; of three or more others, merge those that differ only in spaces and case."""
    kept = [(text, weight) for text, weight in zip(texts, weights, strict=True) if weight > 0]
    if len(kept) > 2:
        different: list[tuple[str, float]] = []
        for text, weight in kept:
            index = next((i for i, (known, _) in enumerate(different) if same_text(text, known)), None)
            if index is None:
                different.append((text, weight))
            else:
                different[index] = different[index][0], different[index][1] + weight
        kept = different
    return tuple(text for text, _ in kept), tuple(weight for _, weight in kept)


def ratio_of(weights: Sequence[float]) -> float:
    """Return the share of the first of two texts."""
    first, second = weights
    return first if math.isclose(first + second, 1.0) else first / (first + second)


def texts_of(row: Row) -> Sequence[str]:
    return row[:2] if len(row) == 4 else row[0]


def with_seed(row: Row, seed: int) -> Row:
    return (*row[:3], seed) if len(row) == 4 else (*row[:2], seed)


def row_seeds(seed: int) -> Iterator[int]:
    """Yield an endless stream of seeds: one for every row of a call, or for every part of a long row."""
    checked_integer(seed, "seed", 0, MAX_SEED)
    for row in itertools.count():
        yield int(np.random.SeedSequence([seed, row]).generate_state(1)[0])
