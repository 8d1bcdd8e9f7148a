"""Labels of a table as arrays (B, C) over its sorted classes: one class, a distribution, or several classes per row.

A label of the data is a string, an integer or a boolean, and keeps its type; or it is soft: a list of probabilities.
With several labels per row, it is a list of class names, or a vector with one value from 0 to 1 per class, which need
not sum to 1. Two rows have the same label if they have the same set of classes.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linda.errors import LindaError, shortened
from linda.evaluation.metrics import PRESENT

# Rounding errors (0.30000000000000004) would make files longer and different between machines.
_PROBABILITY_DECIMALS = 6

LabelName = str | int | bool | float


# --- one label per row ----------------------------------------------------------------------------------------


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
        values = np.array([soft_label(value) for value in self.soft(rows.tolist())]).reshape(len(rows), len(self.names))
        return np.asarray(values / values.sum(axis=1, keepdims=True))

    def most_likely(self, rows: np.ndarray) -> list[LabelName]:
        return [self.names[code] for code in self.codes[rows]]

    def column_value(self, label: Sequence[float]) -> Any:
        """The value of the label column for a new row with these probabilities."""
        return self.names[int(np.argmax(label))]

    def hard(self, labels: np.ndarray) -> np.ndarray:
        """Labels (B, C) without intermediate values: one-hot at the largest entry, the first of equal ones."""
        return np.eye(labels.shape[1])[labels.argmax(axis=1)]

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
    _width: int | None = None  # of soft labels, or of vectors

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


# --- several labels per row -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MultiLabels(Labels):
    """The labels of all rows of a table. `codes` number the sets of classes, not the classes."""

    fetch: Callable[[Sequence[int]], list[Any]] = field(kw_only=True)  # the label column of these rows
    kind: str = field(kw_only=True)  # what the label column lists: names, integers or numbers
    is_text: bool = field(kw_only=True)  # as JSON, as in CSV
    rows_of_class: dict[LabelName, int] = field(kw_only=True)

    def distributions(self, rows: np.ndarray) -> np.ndarray:
        """Return the labels (B, C) of these rows, with values from 0 to 1."""
        found = [_as_list(value) for value in self.fetch(rows.tolist())]
        if self.kind == "names":
            found = [[name in values for name in self.names] for values in found]
        return np.array(found, dtype=np.float64).reshape(len(rows), len(self.names))

    def most_likely(self, rows: np.ndarray) -> list[Any]:
        return self.fetch(rows.tolist())

    def counts(self) -> dict[LabelName, int]:
        return dict(self.rows_of_class)

    def column_value(self, label: Sequence[float]) -> Any:
        """The label of a new row, written as those of the originals."""
        value: list[Any]
        if self.kind == "names":
            value = [name for name, share in zip(self.names, label, strict=True) if share >= PRESENT]
        elif self.kind == "integers":
            value = [int(share >= PRESENT) for share in label]
        else:
            (value,) = rounded(np.array([label]))
        return json.dumps(value, ensure_ascii=False) if self.is_text else value

    def hard(self, labels: np.ndarray) -> np.ndarray:
        return (labels >= PRESENT).astype(np.float64)

    def count_classes(self, labels: np.ndarray) -> Counter[int]:
        return Counter(np.nonzero(labels >= PRESENT)[1].tolist())


@dataclass
class MultiLabelReader(LabelReader):
    """Reads labels one by one. `_kind` is that of `MultiLabels`, None until a row shows it."""

    _is_text: bool = False
    _sets: dict[frozenset[LabelName], int] = field(default_factory=dict)
    _count: Counter[LabelName] = field(default_factory=Counter)

    def add(self, value: Any, place: str) -> None:
        if is_missing(value):
            raise LindaError(f"{place}: the label is missing; every row needs one ([] if it has no class)")
        self._is_text = isinstance(value, str)
        values = _as_list(value)
        if values is None:
            raise LindaError(f"{place}: the label is {value!r}; with several labels per row, give a list")
        present = frozenset(self._present(values, place))
        self._count.update(present)
        self._codes.append(self._sets.setdefault(present, len(self._sets)))

    def labels(self, fetch: Callable[[Sequence[int]], list[Any]]) -> MultiLabels:
        """All labels read. `fetch` returns the label column of rows."""
        kind = self._kind or "names"
        known: Sequence[LabelName] = sorted(self._count) if self._width is None else range(self._width)
        names = tuple(known if self.classes is None else self.classes)
        keys: Sequence[LabelName] = names if kind == "names" else range(len(names))
        counts = {name: self._count[key] for name, key in zip(names, keys, strict=True)}
        codes = np.array(self._codes, dtype=np.int32)
        return MultiLabels(names, codes, fetch=fetch, kind=kind, is_text=self._is_text, rows_of_class=counts)

    def _present(self, values: list[Any], place: str) -> list[LabelName]:
        """The classes of a row: names, or numbers of the entries of a vector."""
        kind = _kind_of(values) if values else self._kind or "names"
        if kind is None or (self._kind is not None and (kind == "names") != (self._kind == "names")):
            raise LindaError(f"{place}: the label is {shown(values)}; give class names in all rows, or numbers in all")
        if values and self._kind in (None, "integers"):
            self._kind = kind
        if kind != "names":
            return self._entries(values, place)
        unknown = [] if self.classes is None else [name for name in values if name not in self.classes]
        if unknown:
            raise LindaError(f"{place}: the label {unknown[0]!r} is not one of {shown(self.classes or ())}")
        return values

    def _entries(self, values: list[Any], place: str) -> list[LabelName]:
        if self._width is None:
            self._width = len(values) if self.classes is None else len(self.classes)
        if len(values) != self._width:
            raise LindaError(f"{place}: {len(values)} values, expected {self._width}, one per class")
        if not all(0 <= value <= 1 for value in values):
            raise LindaError(f"{place}: {shown(values)} is not a vector of labels; values must be from 0 to 1")
        return [number for number, value in enumerate(values) if value >= PRESENT]


# --- values ----------------------------------------------------------------------------------------------------


def soft_label(value: Any) -> list[float] | None:
    """The probabilities in a value: a list of numbers, or one as JSON (as in CSV). None for other values."""
    if isinstance(value, str) and not (value.startswith("[") and value.endswith("]")):
        return None
    values = _as_list(value)
    if not values or not all(isinstance(p, int | float | np.number) and not isinstance(p, bool) for p in values):
        return None
    try:
        return [float(p) for p in values]
    except OverflowError:
        return None


def _as_list(value: Any) -> Any:
    """The entries as plain Python values; None for what is no list."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, list | tuple) else None


def _kind_of(values: list[Any]) -> str | None:
    """Of values that are all of one kind."""
    if all(isinstance(value, str) for value in values):
        return "names"
    if all(isinstance(value, int) for value in values):
        return "integers"
    return "numbers" if all(isinstance(value, int | float) for value in values) else None


def shown(names: Sequence[Any]) -> str:
    """Names for a message, at most eight."""
    listed = ", ".join(map(repr, list(names)[:8]))
    return listed if len(names) <= 8 else f"{listed} … ({len(names)} in all)"


def is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, str) and not value.strip())
    )


def plain(value: Any) -> Any:
    """A Python value instead of a numpy scalar."""
    return value.item() if isinstance(value, np.generic) else value


def rounded(labels: np.ndarray) -> list[list[float]]:
    """Labels (B, C) as they are stored."""
    return np.round(labels, _PROBABILITY_DECIMALS).tolist()
