"""The requirements for a model, and whether it meets them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linda.inspection.conditions import STATES, ConditionPoint
from linda.inspection.fluency import OUTPUTS
from linda.inspection.references import CROSSOVER, SPLICE

if TYPE_CHECKING:
    from linda.inspection.report import Inspection


@dataclass(frozen=True)
class Standard:
    """Bounds of the measures, for sentences that are similar to the training data or not."""

    ends: float  # unigram precision at α = 1 and α = 0, at least
    words_found: float  # share of words found in a or b at 0.5, at least
    content_of_both: float  # outputs with content words of both at 0.5, at least
    aim: float  # mean |share of a − α| over texts and ratios 0.3, 0.5, 0.7, at most
    straightness: float  # |mean share of a − α|, at most
    length_fits: float  # outputs of the right length at 0.3, 0.5, 0.7, at least
    relative_to_real: float  # perplexity at 0.5, at most
    relative_to_splice: float  # perplexity at 0.5, at most
    new_in_the_middle: float  # outputs at 0.5 that equal neither text, at least
    new_beside_it: float  # the same over 0.2 … 0.8 without 0.5, at least
    conditions: float  # share of pairs in which conditions 1 and 2 hold, at least


STANDARDS = {
    "in-domain": Standard(
        ends=0.99,
        words_found=0.93,
        content_of_both=0.93,
        aim=0.12,
        straightness=0.05,
        length_fits=0.95,
        relative_to_real=1.8,
        relative_to_splice=0.6,
        new_in_the_middle=0.98,
        new_beside_it=0.80,
        conditions=0.95,
    ),
    "out-of-domain": Standard(
        ends=0.985,
        words_found=0.92,
        content_of_both=0.90,
        aim=0.15,
        straightness=0.07,
        length_fits=0.92,
        relative_to_real=1.6,
        relative_to_splice=0.7,
        new_in_the_middle=0.95,
        new_beside_it=0.70,
        conditions=0.92,
    ),
}

_MAX_REPEATING = 0.01


@dataclass(frozen=True)
class Requirement:
    """One row of the verdict."""

    measure: str
    wanted: str
    reached: str
    passed: bool | None  # None: not measured, or reported without a bound


def verdict(inspection: Inspection, standard: Standard) -> list[Requirement]:
    """Compare the measures of a model with the requirements."""
    path = inspection.calibrated
    middle = path.at(0.5)
    repeating = max(path.points, key=lambda point: point.repeating)
    return [
        _at_least(
            "unigram precision at the ends (the lower of α=1 against a and α=0 against b)",
            standard.ends,
            min(path.at(1.0).precision_a, path.at(0.0).precision_b),
        ),
        _at_least("words found in a or b at α=0.5", standard.words_found, middle.words_found),
        _at_least("outputs with content words of both at α=0.5", standard.content_of_both, middle.content_of_both),
        _at_most("aim: mean distance of a text's share of a from α, at α=0.3, 0.5, 0.7", standard.aim, path.aim),
        _at_most(
            "straightness: largest distance of the mean share of a from α", standard.straightness, path.straightness
        ),
        _at_least(
            "outputs with 0.75 to 1.33 times L̃ tokens at α=0.3, 0.5, 0.7", standard.length_fits, path.length_fits
        ),
        *_fluency(inspection, standard),
        _at_least("outputs equal to neither text at α=0.5", standard.new_in_the_middle, middle.new),
        _at_least(
            "the same on average over α=0.2 … 0.8 without 0.5", standard.new_beside_it, path.new_beside_the_middle
        ),
        Requirement("both curves monotone in α", "yes", "yes" if path.is_monotone else "no", path.is_monotone),
        Requirement(
            f"outputs with a trigram three times or letters in a loop (at the worst α, {repeating.alpha:g})",
            f"< {_MAX_REPEATING:g}",
            f"{repeating.repeating:.4f}",
            repeating.repeating < _MAX_REPEATING,
        ),
        *_conditions(inspection, standard),
        Requirement("largest step of the share of a between neighbouring α", "–", f"{path.largest_step:.3f}", None),
    ]


def _fluency(inspection: Inspection, standard: Standard) -> list[Requirement]:
    fluency = inspection.fluency
    to_real = to_splice = to_crossover = None
    if fluency is not None:
        outputs = fluency.at(OUTPUTS, 0.5)
        to_real = None if outputs is None else fluency.relative_to_real(outputs)
        to_splice, to_crossover = fluency.relative_to(SPLICE, 0.5), fluency.relative_to(CROSSOVER, 0.5)
    rows = [
        _at_most("perplexity at α=0.5 relative to real sentences", standard.relative_to_real, to_real),
        _at_most("perplexity at α=0.5 relative to the naive splice", standard.relative_to_splice, to_splice),
    ]
    if to_crossover is not None:
        rows.append(Requirement("perplexity at α=0.5 relative to the best crossover", "–", f"{to_crossover:.3f}", None))
    return rows


def _conditions(inspection: Inspection, standard: Standard) -> list[Requirement]:
    """Check the conditions for mixing of states, the paper's method."""
    if STATES not in inspection.conditions:
        return []
    weakest = _weakest(inspection.conditions[STATES])
    name = f"pairs for which conditions 1 and 2 hold, raw ratio (at the worst α, {weakest.alpha:g})"
    return [_at_least(name, standard.conditions, weakest.holds)]


def _weakest(points: Sequence[ConditionPoint]) -> ConditionPoint:
    """Return the ratio at which the conditions hold for the fewest pairs; they do not apply at 0, 0.5 and 1."""
    return min((point for point in points if point.alpha not in (0.0, 0.5, 1.0)), key=lambda point: point.holds)


# Displayed values are never rounded towards a pass.
def _at_least(measure: str, wanted: float, reached: float) -> Requirement:
    return Requirement(measure, f"≥ {wanted:g}", f"{math.floor(reached * 1000) / 1000:.3f}", reached >= wanted)


def _at_most(measure: str, wanted: float, reached: float | None) -> Requirement:
    if reached is None:
        return Requirement(measure, f"≤ {wanted:g}", "not measured", None)
    return Requirement(measure, f"≤ {wanted:g}", f"{math.ceil(reached * 1000) / 1000:.3f}", reached <= wanted)
