"""The common part of classifiers that train scikit-learn's on vectors of texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from linda.classifier.inputs import TrainingRows, by_position
from linda.classifier.weighted_estimator import OneVsRest, WeightedEstimator


class VectorClassifier(ABC):
    """Trains a classifier on the vectors of texts, which a subclass computes.

    Args:
        head: Is trained on the vectors.
        multi_label: Rows have several labels.
    """

    updates: int | None = 0  # not trained with minibatches

    def __init__(self, head: WeightedEstimator | OneVsRest, *, multi_label: bool = False) -> None:
        self._head, self._multi_label = head, multi_label
        self.classes_: list[Any] = []

    def fit(
        self,
        texts: Sequence[str],
        labels: Sequence[Any] | np.ndarray,
        pairs: Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
        *,
        classes: Sequence[Any] | None = None,
        seed: int = 0,
    ) -> Self:
        """Train on the rows. The arguments are those of `TextClassifier.fit`.

        Example:
            >>> labels = np.array([[1.0, 0.0], [0.3, 0.7]])  # soft labels
            >>> LinearProbe().fit(["a fine film", "a dull film"], labels, classes=["pos", "neg"])
        """
        rows = TrainingRows.of(texts, labels, pairs, weights, classes, self._multi_label)
        self.classes_ = rows.classes
        self._head.fit(self._trained_vectors(rows, seed), rows.targets, rows.weights, seed)
        return self

    def predict_proba(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> np.ndarray:
        """Return the probabilities (N, C) of `classes_` for each text."""
        return self._head.predict_proba(self._vectors_of(by_position(texts), by_position(pairs)))

    def _trained_vectors(self, rows: TrainingRows, seed: int) -> Any:
        """Return the vectors of the rows, after training what computes them, if anything is trained."""
        return self._vectors_of(rows.texts, rows.pairs)

    @abstractmethod
    def _vectors_of(self, texts: Sequence[str], pairs: Sequence[str] | None) -> Any:
        """Return the vectors (N, d) of texts."""
