"""Calibration: the map from the requested ratio to the ratio that is mixed.

A trained model passes from one text to the other in a narrow band of ratios and copies outside it. Knots
(requested, mixed) compensate for this: with them, requesting 0.7 yields texts whose measured share of a is 0.7.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linda.errors import LindaError
from linda.measures import mean_share_of_first
from linda.measures.pairs import Pair
from linda.model.checkpoint import save_config

if TYPE_CHECKING:
    from linda.interpolation.interpolator import Interpolator

Knots = list[tuple[float, float]]  # (requested, mixed)
Shares = Mapping[float, float]  # ratio mixed → measured share of a

RAW: Knots = [(0.0, 0.0), (1.0, 1.0)]

_MAX_GAP = 0.08  # ratios are added until the share changes by no more than this between neighbours
_MIN_INTERVAL = 1 / 512  # narrower intervals are not halved: the mixtures hardly differ
_MAX_RATIOS = 24
_BESIDE_THE_END = 0.005  # shares this close to 0 or 1 count as copies


def calibrated(alpha: float, knots: Sequence[tuple[float, float]]) -> float:
    """Return the ratio to mix for a requested `alpha`: linear between knots that rise from (0, 0) to (1, 1)."""
    if not 0.0 <= alpha <= 1.0:
        raise LindaError(f"alpha is {alpha}; give a number between 0 (the second text) and 1 (the first)")
    right = bisect_right(knots, alpha, key=lambda knot: knot[0])
    if right == len(knots):
        return knots[-1][1]
    (asked_left, mixed_left), (asked_right, mixed_right) = knots[right - 1], knots[right]
    along = (alpha - asked_left) / (asked_right - asked_left)
    return mixed_left * (1.0 - along) + mixed_right * along


def calibrate(interpolator: Interpolator, folder: Path, pairs: Sequence[Pair], progress: bool = False) -> Knots:
    """Fit the knots of the model in a folder and store them there.

    Args:
        interpolator: The loaded model.
        folder: Its folder.
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

    The pairs are decoded at raw ratios, more densely where the share changes. A monotone curve is fitted to the
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

    Asymmetry is sampling noise of the pairs; averaging halves it.
    """
    asked = sorted({x for x, _ in knots} | {1.0 - x for x, _ in knots})
    return [(x, (calibrated(x, knots) + 1.0 - calibrated(1.0 - x, knots)) / 2) for x in asked]


def measure_shares(measure: Callable[[Sequence[float]], list[float]]) -> dict[float, float]:
    """Measure the share of a at ratios found by repeatedly halving the intervals over which it changes most.

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
        for (left, left_share), (right, right_share) in pairwise(rising_fit(shares))
        if right_share - left_share > _MAX_GAP and right - left > _MIN_INTERVAL
    ]
    return [middle for _, middle in sorted(steps, reverse=True)]


def rising_fit(shares: Shares) -> list[tuple[float, float]]:
    """Fit a non-decreasing curve (ratio, share) by isotonic regression."""
    from sklearn.isotonic import isotonic_regression

    ratios = sorted(shares)
    return list(zip(ratios, isotonic_regression([shares[ratio] for ratio in ratios]).tolist(), strict=True))


def knots_from_shares(shares: Shares) -> Knots:
    """Invert the monotone fit: (requested share, ratio to mix), exact at the ends, increasing in both."""
    inner: Knots = []
    for share, stretch in groupby(rising_fit(shares), key=lambda point: point[1]):
        ratios = [ratio for ratio, _ in stretch]
        if share <= _BESIDE_THE_END:  # copies of b: use the last ratio, where the change begins
            inner = [(_BESIDE_THE_END, ratios[-1])]
        elif share >= 1 - _BESIDE_THE_END:  # copies of a: use the first ratio
            inner.append((1 - _BESIDE_THE_END, ratios[0]))
            break
        else:
            inner.append((share, (ratios[0] + ratios[-1]) / 2))
    return [RAW[0], *(knot for knot in inner if 0 < knot[1] < 1), RAW[1]]
