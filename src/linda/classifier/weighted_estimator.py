"""scikit-learn classifiers trained on soft labels and, optionally, on SMOTE's synthetic vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from linda.errors import LindaError

_SMOTE_NEIGHBOURS = 5


class WeightedEstimator:
    """Any scikit-learn classifier, trained on distributions over classes.

    scikit-learn supports hard labels only. A row with the label (0.7, 0.3) therefore becomes two rows with the same
    vector: one of the first class with weight 0.7, one of the second with weight 0.3.

    Args:
        estimator: A classifier with `predict_proba`. It is cloned, never changed.
        smote: Fill every class up to the largest with vectors between neighbours of a class (SMOTE).
    """

    def __init__(self, estimator: Any, *, smote: bool = False) -> None:
        if not hasattr(estimator, "predict_proba"):
            raise LindaError(
                f"{type(estimator).__name__} has no predict_proba; use a classifier that predicts probabilities, "
                "or wrap it in sklearn.calibration.CalibratedClassifierCV"
            )
        self.estimator = estimator
        self.smote = smote
        self._n_classes = 0

    def fit(self, vectors: Any, targets: np.ndarray, weights: np.ndarray, seed: int = 0) -> WeightedEstimator:
        """Train on vectors (N, d), dense or sparse, with labels (N, C) and row weights (N,)."""
        self._n_classes = targets.shape[1]
        rows, codes, sample_weights = expand_soft_labels(targets, weights)
        vectors = vectors[rows]
        if self.smote:
            vectors, codes = _with_synthetic_vectors(vectors, codes, sample_weights, seed)
            sample_weights = np.ones(len(codes))
        self._fitted = _fit(self.estimator, vectors, codes, sample_weights, seed)
        return self

    def predict_proba(self, vectors: Any) -> np.ndarray:
        """Return probabilities (N, C); classes without training rows have probability 0."""
        probabilities = np.zeros((vectors.shape[0], self._n_classes))
        probabilities[:, self._fitted.classes_] = self._fitted.predict_proba(vectors)
        return probabilities


class OneVsRest:
    """Any scikit-learn classifier, trained once for each class against the rest, for rows that have several labels.

    Args:
        estimator: A classifier with `predict_proba`. It is cloned, never changed.
    """

    def __init__(self, estimator: Any) -> None:
        self._of_class: list[WeightedEstimator] = []
        self._untrained = WeightedEstimator(estimator)

    def fit(self, vectors: Any, targets: np.ndarray, weights: np.ndarray, seed: int = 0) -> OneVsRest:
        """Train on vectors (N, d) with labels (N, C), values from 0 to 1, and row weights (N,)."""
        estimator = self._untrained.estimator
        both = (np.stack([1 - share, share], axis=1) for share in targets.T)
        self._of_class = [WeightedEstimator(estimator).fit(vectors, share, weights, seed) for share in both]
        return self

    def predict_proba(self, vectors: Any) -> np.ndarray:
        """Return the probability of each class independently, (N, C)."""
        return np.stack([one.predict_proba(vectors)[:, 1] for one in self._of_class], axis=1)


def expand_soft_labels(targets: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Expand distributions (N, C) to hard rows: the row number, class and weight of every positive entry."""
    rows, codes = np.nonzero(targets)
    return rows, codes, targets[rows, codes] * weights[rows]


def with_random_state(estimator: Any, seed: int) -> Any:
    """Return a copy of the estimator with every `random_state` set to the seed."""
    from sklearn.base import clone

    names = [name for name in estimator.get_params() if name.split("__")[-1] == "random_state"]
    return clone(estimator).set_params(**dict.fromkeys(names, seed))


def _fit(estimator: Any, vectors: Any, codes: np.ndarray, weights: np.ndarray, seed: int) -> Any:
    from sklearn.dummy import DummyClassifier
    from sklearn.utils.validation import has_fit_parameter

    if len(np.unique(codes)) == 1:  # a fold may have a single class, which most classifiers reject
        return DummyClassifier().fit(vectors, codes)
    seeded = with_random_state(estimator, seed)
    if has_fit_parameter(seeded, "sample_weight"):
        return seeded.fit(vectors, codes, sample_weight=weights)
    if not np.allclose(weights, 1):
        raise LindaError(
            f"{type(estimator).__name__}.fit has no sample_weight, which soft labels and row weights need; "
            "use another classifier, or methods with hard labels"
        )
    return seeded.fit(vectors, codes)


def _with_synthetic_vectors(vectors: Any, codes: np.ndarray, weights: np.ndarray, seed: int) -> tuple[Any, np.ndarray]:
    try:
        from imblearn.over_sampling import SMOTE
    except ImportError as error:
        raise LindaError("smote needs imbalanced-learn: pip install 'linda[imblearn]'") from error
    if not np.allclose(weights, 1):
        raise LindaError("smote needs hard labels without weights; leave out label smoothing and class weights")
    counts = np.bincount(codes)
    # A class of one row has no neighbour to interpolate with.
    filled = {int(code): int(counts.max()) for code in np.flatnonzero((counts > 1) & (counts < counts.max()))}
    if not filled:
        return vectors, codes
    neighbours = min(_SMOTE_NEIGHBOURS, min(counts[code] for code in filled) - 1)
    sampler = SMOTE(sampling_strategy=filled, k_neighbors=int(neighbours), random_state=seed)
    resampled, new_codes = sampler.fit_resample(vectors, codes)
    return resampled, new_codes
