"""Checks of training rows, shared by all classifiers: texts, distributions over classes, weights."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np

from linda.errors import LindaError, checked_kind, checked_unicode


def as_distributions(labels: Sequence[Any] | np.ndarray, classes: Sequence[Any] | None) -> tuple[np.ndarray, list[Any]]:
    """Convert labels to rows (N, C) that sum to 1; return also the classes of the C columns."""
    array = np.asarray(labels)
    if array.ndim == 2:
        known = _names_of_columns(array, classes)
        wrong = ~np.isfinite(array).all(axis=1) | (array < 0).any(axis=1) | (np.abs(array.sum(axis=1) - 1) > 1e-3)
        if wrong.any():
            row = int(wrong.argmax())
            raise LindaError(f"label {row} is not a distribution: {array[row].tolist()} must be ≥ 0 and sum to 1")
        return array.astype(np.float64), known
    names = _plain(labels)
    known = sorted(set(names)) if classes is None else _plain(classes)
    column: dict[Hashable, int] = {name: number for number, name in enumerate(known)}
    unknown = next((name for name in names if name not in column), None)
    if unknown is not None:
        raise LindaError(f"the label {unknown!r} is not one of the classes {known}; add it to `classes`")
    return np.eye(len(known))[[column[name] for name in names]], known


def as_label_vectors(labels: Sequence[Any] | np.ndarray, classes: Sequence[Any] | None) -> tuple[np.ndarray, list[Any]]:
    """Convert the labels of rows with several labels to values (N, C) from 0 to 1; return also the classes."""
    array = np.asarray(labels)
    if array.ndim != 2:
        raise LindaError(
            f"labels have the shape {array.shape}; with multi_label, give one value per row and class: (rows, classes)"
        )
    known = _names_of_columns(array, classes)
    wrong = ~((array >= 0) & (array <= 1)).all(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        raise LindaError(f"label {row} is not a vector of labels: {array[row].tolist()} must be from 0 to 1")
    return array.astype(np.float64), known


def _names_of_columns(labels: np.ndarray, classes: Sequence[Any] | None) -> list[Any]:
    """Return the names of the columns of labels (N, C)."""
    if classes is None or len(classes) != labels.shape[1]:
        count = "none" if classes is None else str(len(classes))
        raise LindaError(
            f"distributions over {labels.shape[1]} classes need the same number of names in `classes`, got {count}"
        )
    return _plain(classes)


def _plain(values: Iterable[Any]) -> list[Any]:
    """Convert numpy scalars, which JSON cannot represent, to Python values."""
    checked_kind(values, "the list of labels or classes", (Iterable,), "a list")
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def by_position(column: Any) -> Any:
    """Convert a numpy or pandas column to a list, because `[]` of pandas looks up the index, not the position."""
    return column.tolist() if hasattr(column, "tolist") else column


class TrainingRows(NamedTuple):
    """The rows of `fit`, checked."""

    texts: Sequence[str]
    pairs: Sequence[str] | None
    targets: np.ndarray  # (N, C); each row sums to 1, unless rows have several labels
    classes: list[Any]  # of the C columns
    weights: np.ndarray  # (N,), 1 by default

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        labels: Sequence[Any] | np.ndarray,
        pairs: Sequence[str] | None,
        weights: Sequence[float] | None,
        classes: Sequence[Any] | None,
        multi_label: bool = False,
    ) -> TrainingRows:
        """Check the arguments of `TextClassifier.fit`. multi_label: rows have several labels."""
        texts, pairs, weights = by_position(texts), by_position(pairs), by_position(weights)
        targets, known = (as_label_vectors if multi_label else as_distributions)(labels, classes)
        check_rows(texts, pairs, len(targets), weights)
        row_weights = np.ones(len(texts)) if weights is None else np.asarray(weights, dtype=float)
        return cls(texts, pairs, targets, known, row_weights)


def check_rows(
    texts: Sequence[str], pairs: Sequence[str] | None, n_labels: int, weights: Sequence[float] | None
) -> None:
    """Raise a `LindaError` unless all columns have one entry per text."""
    if isinstance(texts, str):
        raise LindaError("texts is a single string; give a list of texts")
    for name, column in (("texts", texts), ("pairs", pairs), ("weights", weights)):
        if column is not None:
            checked_kind(column, name, (Sized,), "a list, one entry per row")
    if not len(texts):
        raise LindaError("the list of texts is empty; give at least one")
    for what, column in (("labels", range(n_labels)), ("pairs", pairs), ("weights", weights)):
        if column is not None and len(column) != len(texts):
            raise LindaError(f"{len(texts)} texts but {len(column)} {what}: each text needs one")
    for name, column in (("text", texts), ("pair", pairs or ())):
        for row, text in enumerate(column):
            checked_unicode(text, f"{name} {row}")
