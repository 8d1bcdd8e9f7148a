"""What is written along the path from one text to the other, ratio by ratio."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING

import torch

from linda.interpolation.calibration import RAW, calibrated, mix_at_ratios
from linda.measures import (
    PairPrecisions,
    WordOrigins,
    ends_like_a_sentence,
    repeated_trigram_rate,
    repeats_itself,
    same_text,
)
from linda.measures.pairs import Pair
from linda.model import mixed_lengths

if TYPE_CHECKING:
    from linda.interpolation import Interpolator
    from linda.model.tokens import Tokens

GRID = tuple(step / 10 for step in range(11))  # α = 0, 0.1 … 1
BESIDE_THE_MIDDLE = (0.2, 0.3, 0.4, 0.6, 0.7, 0.8)


@dataclass(frozen=True)
class Decoded:
    """The texts written for the same pairs at each ratio of the grid, and the seconds that took."""

    texts: dict[float, list[str]]  # α → one text per pair
    raw: bool
    seconds: float

    @property
    def rows(self) -> int:
        return sum(map(len, self.texts.values()))


def decode(interpolator: Interpolator, pairs: Sequence[Pair], raw: bool, seed: int, progress: bool) -> Decoded:
    start = perf_counter()
    outputs = mix_at_ratios(interpolator, pairs, GRID, raw=raw, seed=seed, progress=progress)
    return Decoded(dict(zip(GRID, outputs, strict=True)), raw, perf_counter() - start)


@dataclass(frozen=True)
class PathPoint:
    """Averages over the pairs at one ratio."""

    alpha: float  # the ratio asked for
    mixed: float  # the ratio mixed
    precision_a: float  # unigram precision against a, mean over pairs
    precision_b: float
    share_of_a: float  # of the mean precisions
    pair_deviation: float  # mean over pairs of |a pair's own share − α|: how true a single label is
    new: float  # share of outputs that equal neither input
    repeating: float  # share of outputs with a trigram three times, or letters in a loop
    repetition: float  # mean share of trigrams that occurred before
    sentence_ends: float  # share of outputs that end in sentence punctuation
    length: float  # tokens written per token of L̃


def measure_path(interpolator: Interpolator, pairs: Sequence[Pair], decoded: Decoded) -> list[PathPoint]:
    """`interpolator` is asked for its calibration and its tokens."""
    knots = RAW if decoded.raw else interpolator.config.calibration
    lengths_a = _token_counts(interpolator.tokens, [a for a, _ in pairs])
    lengths_b = _token_counts(interpolator.tokens, [b for _, b in pairs])
    points = []
    for alpha, outputs in decoded.texts.items():
        mixed = calibrated(alpha, knots)
        precisions = [PairPrecisions.of(out, *pair) for out, pair in zip(outputs, pairs, strict=True)]
        mean = PairPrecisions.mean(precisions)
        wanted = mixed_lengths(lengths_a, lengths_b, torch.full((len(pairs),), mixed))
        points.append(
            PathPoint(
                alpha=alpha,
                mixed=mixed,
                precision_a=mean.output_in_a,
                precision_b=mean.output_in_b,
                share_of_a=mean.share,
                pair_deviation=_mean(abs(row.share - alpha) for row in precisions),
                new=_mean(
                    not same_text(out, a) and not same_text(out, b) for out, (a, b) in zip(outputs, pairs, strict=True)
                ),
                repeating=_mean(map(repeats_itself, outputs)),
                repetition=_mean(map(repeated_trigram_rate, outputs)),
                sentence_ends=_mean(map(ends_like_a_sentence, outputs)),
                length=int(_token_counts(interpolator.tokens, outputs).sum()) / int(wanted.sum()),
            )
        )
    return points


def straightness(points: Sequence[PathPoint]) -> float:
    """The largest distance between the measured share of a and the ratio asked for."""
    return max(abs(point.share_of_a - point.alpha) for point in points)


def is_monotone(points: Sequence[PathPoint]) -> bool:
    """Whether precision against a never falls as α grows, and precision against b never rises."""
    return all(
        left.precision_a <= right.precision_a and left.precision_b >= right.precision_b
        for left, right in pairwise(points)
    )


@dataclass(frozen=True)
class Middle:
    """Where the words of the outputs at α = 0.5 come from: mean shares of an output's words."""

    in_a: float
    in_b: float
    either: float
    neither: float
    from_both: float  # share of outputs that hold a word only a has and a word only b has


def measure_middle(pairs: Sequence[Pair], outputs: Sequence[str]) -> Middle:
    origins = [WordOrigins.of(out, *pair) for out, pair in zip(outputs, pairs, strict=True)]
    return Middle(
        in_a=_mean(row.in_a for row in origins),
        in_b=_mean(row.in_b for row in origins),
        either=_mean(row.either for row in origins),
        neither=_mean(row.neither for row in origins),
        from_both=_mean(row.only_in_a > 0 and row.only_in_b > 0 for row in origins),
    )


def _token_counts(tokens: Tokens, texts: Sequence[str]) -> torch.Tensor:
    """(B,): tokens that the encoder sees, end marker included."""
    return torch.tensor([len(tokens.ids(text)) for text in texts])


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)
