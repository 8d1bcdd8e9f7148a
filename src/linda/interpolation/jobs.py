"""Rows of (a, b, α, seed), and the jobs that they are split into, each of which fits the model's window."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linda.errors import MOST_SEED, LindaError, checked_integer, checked_ratio, checked_text
from linda.interpolation.between import Kind

Row = tuple[str, str, float, int]  # a, b, alpha, seed
Ids = tuple[int, ...]


@dataclass(frozen=True)
class Job:
    """A pair of texts that both fit the window. A long row is split into several consecutive jobs."""

    texts: tuple[str, str]
    a: Ids
    b: Ids
    alpha: float  # the ratio that is mixed, after calibration
    seed: int
    gap: str  # white space that follows the output in its row
    ends_row: bool
    kind: Kind
    by_attention: bool  # whether attention is mixed instead of states
    copies: bool  # whether to return the likeliest beam even if it is a copy
    unwanted: tuple[str, ...] = ()  # texts to avoid if there is another candidate


def checked_rows(a: str | list[str], b: str | list[str], alpha: float | Sequence[float], seed: int) -> list[Row]:
    """Check all rows before anything is computed, so that an error in the last pair is reported at once."""
    if isinstance(a, str) or isinstance(b, str):
        raise LindaError("a and b must both be texts or both be lists of texts, got one of each")
    a, b = list(a), list(b)
    is_list = isinstance(alpha, Iterable) and not isinstance(alpha, str)
    ratios: list[Any] = list(alpha) if is_list else [alpha] * len(a)  # type: ignore[arg-type]
    if not len(a) == len(b) == len(ratios):
        raise LindaError(f"got {len(a)} texts a, {len(b)} texts b and {len(ratios)} ratios; give as many of each")
    rows = []
    for number, (first, second, ratio, row_seed) in enumerate(
        zip(a, b, ratios, row_seeds(seed), strict=False), start=1
    ):
        which = f" of pair {number}" if len(a) > 1 else ""
        checked_text(first, f"text a{which}")
        checked_text(second, f"text b{which}")
        rows.append((first, second, checked_ratio(ratio, f"alpha{which}"), row_seed))
    return rows


def row_seeds(seed: int) -> Iterator[int]:
    """Yield seeds without end: one for every row of a call, or for every part of a long row."""
    checked_integer(seed, "seed", 0, MOST_SEED)
    for row in itertools.count():
        yield int(np.random.SeedSequence([seed, row]).generate_state(1)[0])


def chunks(jobs: Iterable[Job], tokens: int) -> Iterator[list[Job]]:
    """Group consecutive jobs that have about `tokens` tokens together."""
    chunk: list[Job] = []
    held = 0
    for job in jobs:
        chunk.append(job)
        held += max(len(job.a), len(job.b))
        if held >= tokens:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk
