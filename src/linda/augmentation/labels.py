"""Labels as distributions over the sorted classes: read from the data, and computed for new rows.

A label of the data is a string, an integer or a boolean, and keeps its type; or it is soft: a list of probabilities.
Internally, labels are arrays (B, C).
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from linda.augmentation.planning.plan import Plan
from linda.errors import LindaError, shortened
from linda.measures import share_of_first

if TYPE_CHECKING:
    from linda.augmentation.examples import Example

MODES = ("interpolated", "sharpened", "predicted", "measured", "hard")

# Rounding errors (0.30000000000000004) would make files longer and different between machines.
_PROBABILITY_DECIMALS = 6

LabelName = str | int | bool | float


# --- labels of new rows ---------------------------------------------------------------------------------------


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
        labels: "Labels",
        plan: Plan,
        parents: "Sequence[tuple[Example, Example | None]]",
        new: "Sequence[Example]",
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


def _measured_share(first: "Example", second: "Example | None", new: "Example") -> float:
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


def hard(labels: np.ndarray) -> np.ndarray:
    """One-hot at the largest entry, the first of equal ones."""
    return np.eye(labels.shape[1])[labels.argmax(axis=1)]


def rounded(labels: np.ndarray) -> list[list[float]]:
    """Labels (B, C) as they are stored."""
    return np.round(labels, _PROBABILITY_DECIMALS).tolist()


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


# --- labels of the data ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Labels:
    """The labels of all rows of a table."""

    names: tuple[LabelName, ...]  # (C,) sorted
    codes: np.ndarray  # (n,) int32: the most likely class of each row, −1 for skipped rows
    soft: Callable[[Sequence[int]], list[Any]] | None = None  # fetches the probabilities of these rows

    def distributions(self, rows: np.ndarray) -> np.ndarray:
        """Return the labels (B, C) of these rows."""
        if self.soft is None:
            return np.eye(len(self.names))[self.codes[rows]]
        return np.array([_normalized(soft_label(value)) for value in self.soft(rows.tolist())])

    def most_likely(self, rows: np.ndarray) -> list[LabelName]:
        return [self.names[code] for code in self.codes[rows]]

    def column_value(self, label: Sequence[float]) -> Any:
        """The value of the label column for a new row with these probabilities."""
        return self.names[int(np.argmax(label))]

    def hard(self, labels: np.ndarray) -> np.ndarray:
        """Labels (B, C) without intermediate values."""
        return hard(labels)

    def count_classes(self, labels: np.ndarray) -> Counter[int]:
        """How many of these labels (B, C) have each class."""
        return Counter(labels.argmax(axis=1).tolist())

    def counts(self) -> dict[LabelName, int]:
        """Rows of each class."""
        counts = np.bincount(self.codes[self.codes >= 0], minlength=len(self.names))
        return dict(zip(self.names, counts.tolist(), strict=True))


@dataclass
class LabelReader:
    """Reads labels one by one and stores each as a number."""

    classes: Sequence[LabelName] | None = None  # all classes, if known in advance
    _codes: list[int] = field(default_factory=list)
    _number: dict[LabelName, int] = field(default_factory=dict)
    _kind: str | None = None
    _width: int | None = None  # of soft labels

    def skip(self) -> None:
        self._codes.append(-1)

    def add(self, value: Any, place: str) -> None:
        value = plain(value)
        if is_missing(value):
            raise LindaError(f"{place}: the label is missing; every row needs one")
        probabilities = soft_label(value)
        kind = "list" if probabilities is not None else type(value).__name__
        if self._kind is None:
            self._kind = kind
        if kind != self._kind:
            raise LindaError(
                f"{place}: the label {shortened(value)} is of type {kind}, earlier labels are of type {self._kind}; "
                "use one type"
            )
        self._codes.append(
            self._hard_code(value, place) if probabilities is None else self._soft_code(probabilities, place)
        )

    def labels(self, soft: Callable[[Sequence[int]], list[Any]]) -> Labels:
        """All labels read. `soft` fetches the labels of rows; it is used if they are lists of probabilities."""
        codes = np.array(self._codes, dtype=np.int32)
        if self._width is not None:
            names = tuple(range(self._width)) if self.classes is None else tuple(self.classes)
            return Labels(names, codes, soft)
        names = tuple(sorted(self._number)) if self.classes is None else tuple(self.classes)
        sorted_code = {name: code for code, name in enumerate(names)}
        # The last entry maps −1, the code of skipped rows, to itself.
        by_reading_order = np.array([sorted_code[name] for name in self._number] + [-1], dtype=np.int32)
        return Labels(names, by_reading_order[codes])

    def _hard_code(self, value: Any, place: str) -> int:
        if not isinstance(value, str | int | float):
            raise LindaError(
                f"{place}: the label is {shortened(value)}; give a string, an integer or a boolean, or declare that "
                "rows have several labels (multi_label, --multi-label)"
            )
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise LindaError(
                    f"{place}: the label {value!r} contains a lone surrogate; give valid Unicode"
                ) from None
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise LindaError(f"{place}: the label {shortened(value)} is beyond 64 bits; give a string")
        if isinstance(value, float) and not value.is_integer():
            raise LindaError(f"{place}: the label {value!r} is not a class; use a string, an integer or a boolean")
        if self.classes is not None and value not in self.classes:
            raise LindaError(f"{place}: the label {value!r} is not one of {shown(self.classes)}")
        return self._number.setdefault(value, len(self._number))

    def _soft_code(self, probabilities: list[float], place: str) -> int:
        if self._width is None:
            self._width = len(probabilities) if self.classes is None else len(self.classes)
        if len(probabilities) != self._width:
            raise LindaError(f"{place}: {len(probabilities)} probabilities, expected {self._width}")
        total = sum(probabilities)
        if min(probabilities) < 0 or not math.isclose(total, 1, abs_tol=1e-3):
            raise LindaError(
                f"{place}: {shown(probabilities)} is not a distribution; values must be ≥ 0 and sum to 1, "
                "unless rows have several labels (multi_label, --multi-label)"
            )
        return int(np.argmax(probabilities))


def soft_label(value: Any) -> list[float] | None:
    """The probabilities in a value: a list of numbers, or one as JSON (as in CSV). None for other values."""
    if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, np.ndarray | tuple):
        value = list(value)
    is_list = isinstance(value, list) and len(value) > 0
    if is_list and all(isinstance(p, int | float | np.number) and not isinstance(p, bool) for p in value):
        try:
            return [float(p) for p in value]
        except OverflowError:
            return None
    return None


def shown(names: Sequence[Any]) -> str:
    """Names for a message, at most eight."""
    listed = ", ".join(map(repr, list(names)[:8]))
    return listed if len(names) <= 8 else f"{listed} … ({len(names)} in all)"


def _normalized(probabilities: list[float] | None) -> np.ndarray:
    row = np.array(probabilities, dtype=np.float64)
    return np.asarray(row / row.sum())


def is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, str) and not value.strip())
    )


def plain(value: Any) -> Any:
    """A Python value instead of a numpy scalar."""
    return value.item() if isinstance(value, np.generic) else value
