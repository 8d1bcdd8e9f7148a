"""Logistic regression on the vectors of a frozen encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linda.classifier.vector_classifier import VectorClassifier
from linda.classifier.vectors import VectorCache, shared_vectors

_MOST_ITERATIONS = 2_000


def logistic_regression(inverse_penalty: float = 1.0) -> Any:
    """Return scikit-learn's logistic regression, with enough iterations to converge."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=inverse_penalty, max_iter=_MOST_ITERATIONS)


# Vectors of unit length lie close together: with C = 1, a few rows hardly affect the prediction.
_INVERSE_PENALTY = 10.0


class LinearProbe(VectorClassifier):
    """Logistic regression on the sentence vectors of a pretrained encoder. Training takes milliseconds.

    Args:
        encoder: Folder or hub name of a `transformers` encoder; None is all-MiniLM-L6-v2.
        max_length: Tokens of a text that the encoder reads.
        smote: Fill rare classes with SMOTE's synthetic vectors.
        multi_label: Rows have several labels: `fit` takes values (N, C) from 0 to 1, and each class is predicted
            independently.
        vector_cache: Keeps vectors for other processes and runs.

    Example:
        >>> probe = LinearProbe().fit(["a fine film", "a dull film"], ["pos", "neg"])
        >>> probe.predict_proba(["a fine day"]).shape
        (1, 2)
    """

    def __init__(
        self,
        encoder: str | Path | None = None,
        *,
        max_length: int = 256,
        smote: bool = False,
        multi_label: bool = False,
        vector_cache: VectorCache | None = None,
    ) -> None:
        super().__init__(logistic_regression(_INVERSE_PENALTY), smote=smote, multi_label=multi_label)
        self._vectors = shared_vectors(encoder, max_length, vector_cache)

    def _vectors_of(self, texts: Sequence[str], pairs: Sequence[str] | None) -> np.ndarray:
        return self._vectors(texts, pairs)
