"""Calibration: the map from the requested ratio to the mixed ratio.

A trained model switches from one text to the other in a narrow range of ratios and copies outside it. A piecewise
linear map with the knots (requested, mixed) compensates for this, so that texts requested at 0.7 have a measured share
of a of 0.7.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linda.errors import checked_ratio
from linda.measures import mean_share_of_first
from linda.measures.pairs import Pair
from linda.model.checkpoint import save_config

if TYPE_CHECKING:
    from linda.interpolation.interpolator import Interpolator

Knots = list[tuple[float, float]]  # (requested, mixed)
Shares = Mapping[float, float]  # ratio mixed → measured share of a

RAW: Knots = [(0.0, 0.0), (1.0, 1.0)]

_MAX_GAP = 0.08  # ratios are added until the share changes by at most this between neighbours
_MIN_INTERVAL = 1 / 512  # intervals up to this width are not halved: the mixtures hardly differ
_MAX_RATIOS = 24
_COPY_TOLERANCE = 0.005  # shares this close to 0 or 1 count as copies


def calibrated(alpha: float, knots: Sequence[tuple[float, float]]) -> float:
    """Return the ratio to mix for a requested `alpha`: linear between knots that increase from (0, 0) to (1, 1)."""
    alpha = checked_ratio(alpha)
    right = bisect_right(knots, alpha, key=lambda knot: knot[0])
    if right == len(knots):
        return knots[-1][1]
    (requested_left, mixed_left), (requested_right, mixed_right) = knots[right - 1], knots[right]
    weight = (alpha - requested_left) / (requested_right - requested_left)
    return mixed_left * (1.0 - weight) + mixed_right * weight


def calibrate(interpolator: Interpolator, folder: Path, pairs: Sequence[Pair], progress: bool = False) -> Knots:
    """Fit the knots of the model in a folder and store them there.

    Args:
        interpolator: Interpolator of the model.
        folder: Folder of the model.
        pairs: Held-out pairs of sentences.
        progress: Show progress bars.

    Returns:
        The knots (requested, mixed).

    Example:
        >>> calibrate(Interpolator.from_pretrained("my-model"), Path("my-model"), draw_pairs(sentences, 200))
    """
    interpolator.config.calibration = fit_calibration(interpolator, pairs, progress)
    save_config(interpolator.config, folder)
    return interpolator.config.calibration


def fit_calibration(interpolator: Interpolator, pairs: Sequence[Pair], progress: bool = False) -> Knots:
    """Find the knots for which the measured share of a equals the requested ratio, on average over the pairs.

    The pairs are decoded at raw ratios, which are denser where the share changes. A monotone curve is fitted to the
    measured shares and inverted. The model is not changed.
    """
    a, b = [first for first, _ in pairs], [second for _, second in pairs]

    def measure(ratios: Sequence[float]) -> list[float]:
        outputs = mix_at_ratios(interpolator, pairs, ratios, raw=True, copies=False, progress=progress)
        return [mean_share_of_first(texts, a, b) for texts in outputs]

    return symmetric(knots_from_shares(measure_shares(measure)))


def mix_at_ratios(
    interpolator: Interpolator, pairs: Sequence[Pair], ratios: Sequence[float], **settings: Any
) -> list[list[str]]:
    """Mix all pairs at each ratio, in one call, so that each text is encoded once and batches are full."""
    a, b = [first for first, _ in pairs], [second for _, second in pairs]
    each = [ratio for ratio in ratios for _ in pairs]
    texts = interpolator.mix(a * len(ratios), b * len(ratios), each, **settings)
    return [texts[start : start + len(pairs)] for start in range(0, len(texts), len(pairs))]


def symmetric(knots: Knots) -> Knots:
    """Average the map with its mirror image: mixing a and b at α is the same as mixing b and a at 1 − α.

    Asymmetry is sampling noise of the pairs, which averaging reduces.
    """
    requested = sorted({x for x, _ in knots} | {1.0 - x for x, _ in knots})
    return [(x, (calibrated(x, knots) + 1.0 - calibrated(1.0 - x, knots)) / 2) for x in requested]


def measure_shares(measure: Callable[[Sequence[float]], list[float]]) -> dict[float, float]:
    """Measure the share of a at more and more ratios, halving the intervals over which it changes most.

    `measure` returns the shares at several ratios at once. The shares at 0 and 1 are 0 and 1 by definition.
    """
    shares = {0.0: 0.0, 1.0: 1.0}
    while ratios := _wide_gaps(shares)[: _MAX_RATIOS - len(shares)]:
        shares.update(zip(ratios, measure(ratios), strict=True))
    return shares


def _wide_gaps(shares: Shares) -> list[float]:
    """Return the midpoints of the intervals over which the fitted share changes too much, largest change first."""
    steps = [
        (right_share - left_share, (left + right) / 2)
        for (left, left_share), (right, right_share) in pairwise(monotone_fit(shares))
        if right_share - left_share > _MAX_GAP and right - left > _MIN_INTERVAL
    ]
    return [middle for _, middle in sorted(steps, reverse=True)]


def monotone_fit(shares: Shares) -> list[tuple[float, float]]:
    """Fit a non-decreasing curve (ratio, share) by isotonic regression."""
    from sklearn.isotonic import isotonic_regression

    ratios = sorted(shares)
    return list(zip(ratios, isotonic_regression([shares[ratio] for ratio in ratios]).tolist(), strict=True))


def knots_from_shares(shares: Shares) -> Knots:
    """Invert the monotone fit: (requested share, ratio to mix), exact at the ends, increasing in both."""
    inner: Knots = []
    for share, points in groupby(monotone_fit(shares), key=lambda point: point[1]):
        ratios = [ratio for ratio, _ in points]
        if share <= _COPY_TOLERANCE:  # copies of b: use the largest ratio
            inner = [(_COPY_TOLERANCE, ratios[-1])]
        elif share >= 1 - _COPY_TOLERANCE:  # copies of a: use the smallest ratio
            inner.append((1 - _COPY_TOLERANCE, ratios[0]))
            break
        else:
            inner.append((share, (ratios[0] + ratios[-1]) / 2))
    return [RAW[0], *(knot for knot in inner if 0 < knot[1] < 1), RAW[1]]
