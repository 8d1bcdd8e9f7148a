"""Several labels per row: lists of class names, or vectors with one value from 0 to 1 per class.

Such a vector need not sum to 1. Two rows have the same label if they have the same set of classes.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linda.augmentation.labels import LabelName, Labels, is_missing, rounded, shown
from linda.errors import LindaError

# A row has a class if its value is at least this.
PRESENT = 0.5


@dataclass(frozen=True)
class MultiLabels(Labels):
    """The labels of all rows of a table. `codes` number the sets of classes, not the classes."""

    fetch: Callable[[Sequence[int]], list[Any]] = field(kw_only=True)  # the label column of these rows
    form: "Form" = field(kw_only=True)
    rows_of_class: dict[LabelName, int] = field(kw_only=True)

    def distributions(self, rows: np.ndarray) -> np.ndarray:
        """Return the labels (B, C) of these rows, with values from 0 to 1."""
        return np.array([self.form.vector(value, self.names) for value in self.fetch(rows.tolist())]).reshape(
            len(rows), len(self.names)
        )

    def most_likely(self, rows: np.ndarray) -> list[Any]:
        return self.fetch(rows.tolist())

    def counts(self) -> dict[LabelName, int]:
        return dict(self.rows_of_class)

    def column_value(self, label: Sequence[float]) -> Any:
        return self.form.column_value(label, self.names)

    def hard(self, labels: np.ndarray) -> np.ndarray:
        return (labels >= PRESENT).astype(np.float64)

    def count_classes(self, labels: np.ndarray) -> Counter[int]:
        return Counter(np.nonzero(labels >= PRESENT)[1].tolist())


@dataclass
class Form:
    """How the label column writes several labels."""

    kind: str | None = None  # names, integers or numbers; None until a row shows it
    is_text: bool = False  # JSON, as in CSV

    def vector(self, value: Any, names: Sequence[LabelName]) -> list[float]:
        values = _as_list(value)
        if self.kind == "names":
            return [float(name in values) for name in names]
        return [float(number) for number in values]

    def column_value(self, label: Sequence[float], names: Sequence[LabelName]) -> Any:
        """The label of a new row, written as those of the originals."""
        value: list[Any]
        if self.kind == "names":
            value = [name for name, share in zip(names, label, strict=True) if share >= PRESENT]
        elif self.kind == "integers":
            value = [int(share >= PRESENT) for share in label]
        else:
            (value,) = rounded(np.array([label]))
        return json.dumps(value, ensure_ascii=False) if self.is_text else value


@dataclass
class MultiLabelReader:
    """Reads labels one by one, as `LabelReader` does."""

    classes: Sequence[LabelName] | None = None  # all classes, if known in advance
    _form: Form = field(default_factory=Form)
    _width: int | None = None  # of vectors
    _sets: dict[frozenset[LabelName], int] = field(default_factory=dict)
    _codes: list[int] = field(default_factory=list)
    _count: Counter[LabelName] = field(default_factory=Counter)

    def skip(self) -> None:
        self._codes.append(-1)

    def add(self, value: Any, place: str) -> None:
        if is_missing(value):
            raise LindaError(f"{place}: the label is missing; every row needs one ([] if it has no class)")
        self._form.is_text = isinstance(value, str)
        values = _as_list(value)
        if values is None:
            raise LindaError(f"{place}: the label is {value!r}; with several labels per row, give a list")
        present = frozenset(self._names(values, place))
        self._count.update(present)
        self._codes.append(self._sets.setdefault(present, len(self._sets)))

    def labels(self, fetch: Callable[[Sequence[int]], list[Any]]) -> MultiLabels:
        """All labels read. `fetch` returns the label column of rows."""
        if self._form.kind is None:
            self._form.kind = "names"
        known: Sequence[LabelName] = sorted(self._count) if self._width is None else range(self._width)
        names = tuple(known if self.classes is None else self.classes)
        keys: Sequence[LabelName] = names if self._form.kind == "names" else range(len(names))
        counts = {name: self._count[key] for name, key in zip(names, keys, strict=True)}
        codes = np.array(self._codes, dtype=np.int32)
        return MultiLabels(names, codes, fetch=fetch, form=self._form, rows_of_class=counts)

    def _names(self, values: list[Any], place: str) -> list[LabelName]:
        """The classes of a row: names, or numbers of the entries of a vector."""
        form = self._form
        kind = _kind(values) if values else form.kind or "names"
        if kind is None or (form.kind is not None and (kind == "names") != (form.kind == "names")):
            raise LindaError(f"{place}: the label is {shown(values)}; give class names in all rows, or numbers in all")
        if values and form.kind in (None, "integers"):
            form.kind = kind
        return self._checked_names(values, place) if kind == "names" else self._entries(values, place)

    def _checked_names(self, values: list[Any], place: str) -> list[LabelName]:
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


def _kind(values: list[Any]) -> str | None:
    """Of values that are all of one kind."""
    if all(isinstance(value, str) for value in values):
        return "names"
    if all(isinstance(value, int) for value in values):
        return "integers"
    return "numbers" if all(isinstance(value, int | float) for value in values) else None


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
