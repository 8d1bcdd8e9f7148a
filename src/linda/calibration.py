"""The calibrated ratio: from the ratio asked for to the ratio mixed.

A trained model passes from one text to the other in a narrow band of ratios and copies outside it. Knots
(asked, mixed) straighten that: with them, asking for 0.7 gives texts whose measured share of a is 0.7.
"""

from bisect import bisect_right
from collections.abc import Sequence

from linda.errors import LindaError

Knots = Sequence[tuple[float, float]]

RAW: list[tuple[float, float]] = [(0.0, 0.0), (1.0, 1.0)]


def calibrated(alpha: float, knots: Knots) -> float:
    """The ratio to mix when `alpha` is asked for: linear between knots that rise from (0, 0) to (1, 1)."""
    if not 0.0 <= alpha <= 1.0:
        raise LindaError(f"alpha is {alpha}, but a ratio lies between 0 (the second text) and 1 (the first)")
    right = min(bisect_right(knots, alpha, key=lambda knot: knot[0]), len(knots) - 1)
    (asked_left, mixed_left), (asked_right, mixed_right) = knots[right - 1], knots[right]
    along = (alpha - asked_left) / (asked_right - asked_left)
    return mixed_left * (1.0 - along) + mixed_right * along
