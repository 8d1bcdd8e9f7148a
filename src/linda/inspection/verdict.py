"""What a model must show before it may be called an interpolator, and whether it does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linda.inspection.conditions import ConditionPoint
from linda.inspection.path import BESIDE_THE_MIDDLE, is_monotone, straightness

if TYPE_CHECKING:
    from linda.inspection.report import Inspection


@dataclass(frozen=True)
class Standard:
    """The bounds that depend on how near the sentences are to those the model was trained on."""

    ends: float  # unigram precision at α = 1 and α = 0, at least
    conditions: float  # share of pairs in which conditions 1 and 2 hold, at least
    new_in_the_middle: float  # outputs at 0.5 equal to neither input, at least
    new_beside_it: float  # the same on average over 0.2 … 0.8 without 0.5, at least
    straightness: float  # |share of a − α|, at most


STANDARDS = {
    "in-domain": Standard(0.99, 0.95, 0.95, 0.80, 0.07),
    "out-of-domain": Standard(0.97, 0.92, 0.90, 0.70, 0.12),
}


@dataclass(frozen=True)
class Requirement:
    measure: str
    wanted: str
    reached: str
    passed: bool | None  # None: not measured


def verdict(inspection: Inspection, standard: Standard) -> list[Requirement]:
    path, by_alpha = inspection.calibrated, {point.alpha: point for point in inspection.calibrated}
    ends = (by_alpha[1.0].precision_a, by_alpha[0.0].precision_b)
    conditions = _weakest(inspection.conditions)
    beside = sum(by_alpha[alpha].new for alpha in BESIDE_THE_MIDDLE) / len(BESIDE_THE_MIDDLE)
    middle = inspection.middle
    repeating = max(path, key=lambda point: point.repeating)
    return [
        _at_least(
            "unigram precision at the ends (α=1 against a, α=0 against b; the lower)",
            standard.ends,
            min(ends),
        ),
        Requirement("both curves monotone in α", "yes", _yes_or_no(is_monotone(path)), is_monotone(path)),
        _at_least(
            f"pairs for which conditions 1 and 2 hold, raw ratio (at the weakest α, {conditions.alpha:g})",
            standard.conditions,
            conditions.holds,
        ),
        _at_least("outputs at α=0.5 equal to neither input", standard.new_in_the_middle, by_alpha[0.5].new),
        _at_least("the same on average over α=0.2 … 0.8 without 0.5", standard.new_beside_it, beside),
        Requirement(
            "straightness: largest distance between the share of a and α",
            f"≤ {standard.straightness:g}",
            f"{straightness(path):.3f}",
            straightness(path) <= standard.straightness,
        ),
        Requirement(
            "words of the output at α=0.5 found in a or b",
            "0.35 to 0.9",
            f"{middle.either:.3f}",
            0.35 <= middle.either <= 0.9,
        ),
        Requirement(
            "outputs at α=0.5 with words of both texts",
            "more than half",
            f"{middle.from_both:.3f}",
            middle.from_both > 0.5,
        ),
        *_fluency(inspection),
        Requirement(
            f"outputs with a trigram three times or letters in a loop (at the weakest α, {repeating.alpha:g})",
            "< 0.01",
            f"{repeating.repeating:.4f}",
            repeating.repeating < 0.01,
        ),
    ]


def _weakest(points: Sequence[ConditionPoint]) -> ConditionPoint:
    """The ratio at which the fewest pairs obey; none is asked for at the ends and at 0.5."""
    return min((point for point in points if point.alpha not in (0.0, 0.5, 1.0)), key=lambda point: point.holds)


def _fluency(inspection: Inspection) -> list[Requirement]:
    against_real = "perplexity at α=0.5 against real sentences"
    against_mix = "perplexity at α=0.5 against word-level mixes"
    fluency = inspection.fluency
    if fluency is None:
        return [
            Requirement(against_real, "at most 2 times", "not measured", None),
            Requirement(against_mix, "less than half", "not measured", None),
        ]
    to_real = fluency.outputs.per_token / fluency.real.per_token
    to_mix = fluency.outputs.per_token / fluency.word_mix.per_token
    return [
        Requirement(against_real, "at most 2 times", f"{to_real:.2f} times", to_real <= 2),
        Requirement(against_mix, "less than half", f"{to_mix:.2f} times", to_mix < 0.5),
    ]


def _at_least(measure: str, wanted: float, reached: float) -> Requirement:
    shown = math.floor(reached * 1000) / 1000  # never rounded up to a pass
    return Requirement(measure, f"≥ {wanted:g}", f"{shown:.3f}", reached >= wanted)


def _yes_or_no(answer: bool) -> str:
    return "yes" if answer else "no"
