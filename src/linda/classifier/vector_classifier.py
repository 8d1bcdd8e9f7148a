"""The base class of classifiers that train a scikit-learn classifier on the vectors of texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from linda.classifier.inputs import TrainingRows, by_position
from linda.classifier.weighted_estimator import OneVsRest, WeightedEstimator
from linda.errors import LindaError


class VectorClassifier(ABC):
    """Trains a scikit-learn classifier on the vectors of texts, which a subclass computes.

    Args:
        estimator: The classifier. It is cloned.
        smote: Fill rare classes with SMOTE's synthetic vectors.
        multi_label: Rows have several labels: a copy of the estimator for each class.
    """

    updates: int | None = 0  # not trained with minibatches

    def __init__(self, estimator: Any, *, smote: bool, multi_label: bool = False) -> None:
        if smote and multi_label:
            raise LindaError("smote fills up classes, which needs one label per row; leave it out")
        self._head = OneVsRest(estimator) if multi_label else WeightedEstimator(estimator, smote=smote)
        self._multi_label = multi_label
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
