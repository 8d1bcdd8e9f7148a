"""How new rows are labelled: from the labels of their parents, or as a teacher predicts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from linda.errors import LindaError, shortened
from linda.measures import share_of_first
from linda.planning.examples import Example
from linda.planning.labels import LabelName, Labels, plain, shown
from linda.planning.plan import Plan

MODES = ("interpolated", "sharpened", "predicted", "measured", "hard")


@dataclass(frozen=True)
class LabelRule:
    """How new rows are labelled: one of `MODES`."""

    mode: str = "interpolated"
    temperature: float = 0.5
    teacher: Any = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise LindaError(f"unknown labels {self.mode!r}; choose from {', '.join(MODES)}")
        check_temperature(self.temperature)

    def __call__(
        self,
        labels: Labels,
        plan: Plan,
        parents: Sequence[tuple[Example, Example | None]],
        new: Sequence[Example],
    ) -> np.ndarray:
        """Label new rows.

        Args:
            labels: Labels of the originals.
            plan: The plan rows of the new rows.
            parents: The texts of both parents of each new row; the second is None if the method does not mix.
            new: The texts of the new rows.

        Returns:
            Labels (B, C).

        Example:
            LabelRule("hard")(examples.labels, plan[:1], [(("a cat",), ("a dog",))], [("a cat and dog",)])
        """
        if self.mode == "predicted":
            first, *second = (list(column) for column in zip(*new, strict=True))
            return predicted(self.teacher, labels.names, first, *second)
        label = labels.distributions(plan.row)
        if parents[0][1] is not None:
            share = plan.alpha
            if self.mode == "measured":
                share = np.array([_measured_share(*rows, text) for rows, text in zip(parents, new, strict=True)])
            label = interpolated(label, labels.distributions(plan.partner), share)
        if self.mode == "sharpened":
            return sharpened(label, self.temperature)
        return labels.hard(label) if self.mode == "hard" else label


def _measured_share(first: Example, second: Example | None, new: Example) -> float:
    """The share of the first parent in the words of a new row; the mean over both texts of a pair."""
    assert second is not None
    shares = [share_of_first(*texts) for texts in zip(new, first, second, strict=True)]
    return sum(shares) / len(shares)


def interpolated(first: np.ndarray, second: np.ndarray, share: np.ndarray) -> np.ndarray:
    """αyᵃ + (1−α)yᵇ for labels (B, C), (B, C) and shares α (B,)."""
    return share[:, None] * first + (1 - share[:, None]) * second


def sharpened(labels: np.ndarray, temperature: float) -> np.ndarray:
    """yᵢ^(1/T) / Σⱼyⱼ^(1/T) for labels (B, C): T = 1 changes nothing, T → 0 gives the hard label."""
    check_temperature(temperature)
    # Dividing by the maximum first does not change the result, and avoids underflow at low temperatures.
    with np.errstate(under="ignore"):
        powers = (labels / labels.max(axis=1, keepdims=True)) ** (1 / temperature)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def check_temperature(temperature: float) -> None:
    if isinstance(temperature, bool) or not isinstance(temperature, Real) or not 0 < temperature < math.inf:
        raise LindaError(
            f"the temperature is {shortened(temperature)}; it must be above 0 (1 keeps labels as they are)"
        )


def predicted(teacher: Any, names: Sequence[LabelName], texts: list[str], *pairs: list[str]) -> np.ndarray:
    """The teacher's probabilities (B, C), with columns in the order of `names`.

    Args:
        teacher: An object with `predict_proba`: a `TextClassifier`, a scikit-learn pipeline on texts, … Its columns
            are those of its `classes_`, or `names` if it has no such attribute.
        names: Classes of the data.
        texts: Texts to label.
        *pairs: The second texts of a pair task, as one more list.

    Returns:
        Probabilities (B, C).

    Example:
        predicted(teacher, ("no", "yes"), ["Is this good?"])
    """
    scores = np.asarray(teacher.predict_proba(texts, *pairs), dtype=np.float64)
    known = [plain(name) for name in getattr(teacher, "classes_", names)]
    if scores.shape != (len(texts), len(known)):
        raise LindaError(
            f"the teacher returned an array of shape {scores.shape} for {len(texts)} texts and {len(known)} classes"
        )
    column = {name: number for number, name in enumerate(names)}
    unknown = [name for name in known if name not in column]
    if unknown:
        raise LindaError(
            f"the teacher has the class {unknown[0]!r}, which is not in the data ({shown(names)}); "
            "train the teacher on the classes of this data"
        )
    ordered = np.zeros((len(texts), len(names)))
    ordered[:, [column[name] for name in known]] = scores
    return ordered
