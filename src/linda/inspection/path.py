"""The outputs along the path from one text to the other, and their measures at each ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING

import torch

from linda.interpolation.calibration import RAW, calibrated, mix_at_ratios
from linda.measures import (
    WordOrigins,
    ends_like_a_sentence,
    faithfulness,
    has_content_words_of_both,
    largest_step,
    mean_precisions,
    precisions,
    repeated_trigram_rate,
    repeats_itself,
    same_text,
    shares_of,
)
from linda.measures.pairs import Pair
from linda.model.length_converter import mixed_lengths

if TYPE_CHECKING:
    from linda.interpolation import Interpolator
    from linda.model.tokens import Tokens

GRID = tuple(step / 10 for step in range(11))  # α = 0, 0.1 … 1
MIDDLE = (0.3, 0.5, 0.7)  # ratios over which aim and length are averaged
BESIDE_THE_MIDDLE = (0.2, 0.3, 0.4, 0.6, 0.7, 0.8)
LENGTH_RANGE = (0.75, 1.33)  # tokens of an output, divided by L̃


@dataclass(frozen=True)
class Decoded:
    """The outputs for the same pairs at each ratio of the grid, and the decoding time."""

    texts: dict[float, list[str]]  # α → one text per pair
    raw: bool
    seconds: float

    @property
    def rows(self) -> int:
        """Number of outputs."""
        return sum(map(len, self.texts.values()))


def decode(interpolator: Interpolator, pairs: Sequence[Pair], raw: bool, seed: int, progress: bool) -> Decoded:
    """Decode some pairs at each ratio of the grid.

    Args:
        interpolator: The interpolator.
        pairs: Texts a and b.
        raw: Mix at the uncalibrated ratio.
        seed: Seed of the interpolator, which only sampling uses.
        progress: Show a progress bar.

    Returns:
        One text per pair and ratio.

    Example:
        >>> decode(Interpolator.from_pretrained(), [(a, b)], raw=False, seed=0, progress=False).texts[0.5]
    """
    start = perf_counter()
    outputs = mix_at_ratios(interpolator, pairs, GRID, raw=raw, seed=seed, progress=progress)
    return Decoded(dict(zip(GRID, outputs, strict=True)), raw, perf_counter() - start)


@dataclass(frozen=True)
class PathPoint:
    """Averages over the pairs at one ratio."""

    alpha: float  # the requested ratio
    mixed: float  # the mixed ratio, after calibration
    precision_a: float  # unigram precision against a, mean over pairs
    precision_b: float
    share_of_a: float  # of the mean precisions
    aim: float  # mean over pairs of |share of a − α|
    words_found: float  # mean share of an output's words that are found in a or b
    content_of_both: float  # share of outputs with content words of both texts
    faithfulness: float  # words found, counted as 0 for outputs without content words of both
    new: float  # share of outputs that equal neither text
    length_fits: float  # share of outputs with a length in LENGTH_RANGE
    length: float  # tokens of all outputs, divided by the sum of L̃
    repeating: float  # share of outputs with a trigram three times, or with letters in a loop
    repetition: float  # mean share of trigrams that occurred before
    sentence_ends: float  # share of outputs that end in sentence punctuation


@dataclass(frozen=True)
class MeasuredPath:
    """Measures along the path from b to a, by ascending ratio."""

    points: list[PathPoint]
    largest_step: float  # the largest change of the share of a between neighbouring ratios, mean over pairs

    def at(self, alpha: float) -> PathPoint:
        """Return the point at a ratio of the grid."""
        return next(point for point in self.points if point.alpha == alpha)

    @property
    def straightness(self) -> float:
        """Largest distance between the share of a and the requested ratio."""
        return max(abs(point.share_of_a - point.alpha) for point in self.points)

    @property
    def is_monotone(self) -> bool:
        """Whether precision against a never falls as α grows, and precision against b never rises."""
        return all(
            left.precision_a <= right.precision_a and left.precision_b >= right.precision_b
            for left, right in pairwise(self.points)
        )

    @property
    def aim(self) -> float:
        """Aim, averaged over the ratios of MIDDLE."""
        return fmean(self.at(alpha).aim for alpha in MIDDLE)

    @property
    def length_fits(self) -> float:
        """Share of outputs with a length in LENGTH_RANGE, over the ratios of MIDDLE."""
        return fmean(self.at(alpha).length_fits for alpha in MIDDLE)

    @property
    def new_beside_the_middle(self) -> float:
        """Share of outputs that equal neither text, over the ratios of BESIDE_THE_MIDDLE."""
        return fmean(self.at(alpha).new for alpha in BESIDE_THE_MIDDLE)


def measure_path(interpolator: Interpolator, pairs: Sequence[Pair], decoded: Decoded) -> MeasuredPath:
    """Measure the outputs for some pairs, with the calibration and the tokenizer of the interpolator."""
    knots = RAW if decoded.raw else interpolator.config.calibration
    lengths_a = _token_counts(interpolator.tokens, [a for a, _ in pairs])
    lengths_b = _token_counts(interpolator.tokens, [b for _, b in pairs])
    points = []
    shares: list[list[float]] = []  # of each ratio, for each pair
    for alpha, outputs in decoded.texts.items():
        rows = [(out, *pair) for out, pair in zip(outputs, pairs, strict=True)]
        measured = [precisions(out, pair) for out, pair in zip(outputs, pairs, strict=True)]
        shares.append([shares_of(row)[0] for row in measured])
        average = mean_precisions(measured)
        lengths = _token_counts(interpolator.tokens, outputs)
        wanted = mixed_lengths(lengths_a, lengths_b, torch.full((len(pairs),), alpha, dtype=torch.float64))
        relative = lengths / wanted
        points.append(
            PathPoint(
                alpha=alpha,
                mixed=calibrated(alpha, knots),
                precision_a=average[0][0],
                precision_b=average[1][0],
                share_of_a=shares_of(average)[0],
                aim=fmean(abs(share - alpha) for share in shares[-1]),
                words_found=fmean(WordOrigins.of(*row).either for row in rows),
                content_of_both=fmean(has_content_words_of_both(*row) for row in rows),
                faithfulness=fmean(faithfulness(*row) for row in rows),
                new=fmean(not same_text(out, a) and not same_text(out, b) for out, a, b in rows),
                length_fits=float(((relative >= LENGTH_RANGE[0]) & (relative <= LENGTH_RANGE[1])).double().mean()),
                length=int(lengths.sum()) / int(wanted.sum()),
                repeating=fmean(map(repeats_itself, outputs)),
                repetition=fmean(map(repeated_trigram_rate, outputs)),
                sentence_ends=fmean(map(ends_like_a_sentence, outputs)),
            )
        )
    return MeasuredPath(points, fmean(largest_step(row) for row in zip(*shares, strict=True)))


def _token_counts(tokens: Tokens, texts: Sequence[str]) -> torch.Tensor:
    """Count the tokens of each text, end marker included, (B,)."""
    return torch.tensor([len(tokens.ids(text)) for text in texts])
