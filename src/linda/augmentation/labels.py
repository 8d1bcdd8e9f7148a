"""Labels as distributions over the sorted label set: read from data, and made for new rows.

A label may be a text, a whole number or a boolean, and comes back as what it was; or it is already soft, a list
of probabilities. Inside, every label is a row of an array (B, C).
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linda.errors import LindaError, shortened

MODES = ("interpolated", "sharpened", "predicted", "measured", "hard")

# Float dust (0.30000000000000004) would make files long and differ between machines.
_PROBABILITY_DECIMALS = 6

LabelName = str | int | bool | float


# --- labels of new rows ---------------------------------------------------------------------------------------


def interpolated(first: np.ndarray, second: np.ndarray, share: np.ndarray) -> np.ndarray:
    """αyᵃ + (1−α)yᵇ for labels (B, C), (B, C) and shares of the first (B,)."""
    return share[:, None] * first + (1 - share[:, None]) * second


def sharpened(labels: np.ndarray, temperature: float) -> np.ndarray:
    """yᵢ^(1/T) / Σⱼyⱼ^(1/T) for labels (B, C): T = 1 changes nothing, T → 0 gives the hard label."""
    check_temperature(temperature)
    # Dividing by the largest first leaves the result as it is and keeps small temperatures from underflow.
    with np.errstate(under="ignore"):
        powers = (labels / labels.max(axis=1, keepdims=True)) ** (1 / temperature)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def check_temperature(temperature: float) -> None:
    if not 0 < temperature < math.inf:
        raise LindaError(f"the temperature is {temperature:g}; it must be above 0 (1 changes nothing)")


def hard(labels: np.ndarray) -> np.ndarray:
    """One-hot at the largest entry; between equals, at the first."""
    return np.eye(labels.shape[1])[labels.argmax(axis=1)]


def rounded(labels: np.ndarray) -> list[list[float]]:
    """Labels (B, C) as they are written down."""
    return np.round(labels, _PROBABILITY_DECIMALS).tolist()


def predicted(teacher: Any, names: Sequence[LabelName], texts: list[str], *pairs: list[str]) -> np.ndarray:
    """The teacher's probabilities (B, C), its columns brought into the order of `names`.

    A teacher is anything with predict_proba: a `TextClassifier`, a scikit-learn pipeline on texts … For pair tasks it
    gets the second texts too. Its columns follow its `classes_`, or `names` where it has none.
    """
    scores = np.asarray(teacher.predict_proba(texts, *pairs), dtype=np.float64)
    known = [_plain(name) for name in getattr(teacher, "classes_", names)]
    if scores.shape != (len(texts), len(known)):
        raise LindaError(
            f"the teacher gave probabilities of shape {scores.shape} for {len(texts)} texts and {len(known)} labels"
        )
    column = {name: number for number, name in enumerate(names)}
    strange = [name for name in known if name not in column]
    if strange:
        raise LindaError(
            f"the teacher knows the label {strange[0]!r}, the data does not (it has {shown(names)}); "
            "train the teacher on this data's labels"
        )
    ordered = np.zeros((len(texts), len(names)))
    ordered[:, [column[name] for name in known]] = scores
    return ordered


# --- labels of the data ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Labels:
    """The labels of all rows of a table."""

    names: tuple[LabelName, ...]  # (C,) sorted
    codes: np.ndarray  # (n,) int32: the likeliest label of each row, −1 for rows that are left out
    soft: Callable[[Sequence[int]], list[Any]] | None = None  # the lists of probabilities of these rows

    def distributions(self, rows: np.ndarray) -> np.ndarray:
        """(B, C)"""
        if self.soft is None:
            return np.eye(len(self.names))[self.codes[rows]]
        return np.array([_normalized(soft_label(value)) for value in self.soft(rows.tolist())])

    def counts(self) -> dict[LabelName, int]:
        counts = np.bincount(self.codes[self.codes >= 0], minlength=len(self.names))
        return dict(zip(self.names, counts.tolist(), strict=True))


@dataclass
class LabelReader:
    """Reads labels one after the other, and holds each as a number."""

    classes: Sequence[LabelName] | None = None  # the label set, where it is known beforehand
    _codes: list[int] = field(default_factory=list)
    _number: dict[LabelName, int] = field(default_factory=dict)
    _kind: str | None = None
    _width: int | None = None  # of soft labels

    def skip(self) -> None:
        self._codes.append(-1)

    def add(self, value: Any, place: str) -> None:
        value = _plain(value)
        if _is_missing(value):
            raise LindaError(f"{place}: the label is missing; give every row one")
        probabilities = soft_label(value)
        kind = "list" if probabilities is not None else type(value).__name__
        if self._kind is None:
            self._kind = kind
        if kind != self._kind:
            raise LindaError(
                f"{place}: the label {shortened(value)} is of type {kind}, those before it of type {self._kind}; "
                "use one type"
            )
        self._codes.append(
            self._hard_code(value, place) if probabilities is None else self._soft_code(probabilities, place)
        )

    def labels(self, soft: Callable[[Sequence[int]], list[Any]]) -> Labels:
        """All labels read; `soft` fetches lists of probabilities by row, if that is what the labels are."""
        codes = np.array(self._codes, dtype=np.int32)
        if self._width is not None:
            names = tuple(range(self._width)) if self.classes is None else tuple(self.classes)
            return Labels(names, codes, soft)
        names = tuple(sorted(self._number)) if self.classes is None else tuple(self.classes)
        sorted_code = {name: code for code, name in enumerate(names)}
        # The last entry answers to −1, the mark of rows left out.
        by_reading_order = np.array([sorted_code[name] for name in self._number] + [-1], dtype=np.int32)
        return Labels(names, by_reading_order[codes])

    def _hard_code(self, value: Any, place: str) -> int:
        if not isinstance(value, str | int | float):
            raise LindaError(f"{place}: the label is {shortened(value)}; give a text, a whole number or a boolean")
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise LindaError(f"{place}: the label {value!r} holds half a character; give valid Unicode") from None
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise LindaError(
                f"{place}: the label {shortened(value)} is beyond 64 bits; give a smaller number, or a text"
            )
        if isinstance(value, float) and not value.is_integer():
            raise LindaError(f"{place}: the label is the fraction {value!r}; labels are classes, not measures")
        if self.classes is not None and value not in self.classes:
            raise LindaError(f"{place}: the label {value!r} is none of {shown(self.classes)}")
        return self._number.setdefault(value, len(self._number))

    def _soft_code(self, probabilities: list[float], place: str) -> int:
        if self._width is None:
            self._width = len(probabilities) if self.classes is None else len(self.classes)
        if len(probabilities) != self._width:
            raise LindaError(f"{place}: {len(probabilities)} probabilities where {self._width} are expected")
        total = sum(probabilities)
        if min(probabilities) < 0 or not math.isclose(total, 1, abs_tol=1e-3):
            raise LindaError(f"{place}: {shown(probabilities)} is no distribution; it must be ≥ 0 and sum to 1")
        return int(np.argmax(probabilities))


def soft_label(value: Any) -> list[float] | None:
    """The probabilities that a value holds: a list of numbers, or the JSON text of one (as in CSV)."""
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
    """Names for a message: all of a few, the first of many."""
    listed = ", ".join(map(repr, list(names)[:8]))
    return listed if len(names) <= 8 else f"{listed} … ({len(names)} in all)"


def _normalized(probabilities: list[float] | None) -> np.ndarray:
    row = np.array(probabilities, dtype=np.float64)
    return np.asarray(row / row.sum())


def _is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, str) and not value.strip())
    )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
