"""scikit-learn pipelines on texts: TF-IDF with logistic regression, or any other by its import path."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from linda.classifier.inputs import TrainingRows
from linda.classifier.probe import logistic_regression
from linda.classifier.vector_classifier import VectorClassifier
from linda.classifier.weighted_estimator import with_random_state
from linda.errors import LindaError
from linda.evaluation.metrics import PRESENT


def tfidf_pipeline() -> Any:
    """Return a pipeline of TF-IDF on unigrams and bigrams, and logistic regression."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    return make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b"), logistic_regression(10.0)
    )


class TextPipeline(VectorClassifier):
    """A scikit-learn classifier of texts, trained on soft labels.

    The steps before the last process every text once; for the last step, soft labels are expanded to weighted rows.
    So inverse document frequencies count texts, not labels. A pair is joined into one text.

    Args:
        pipeline: A `Pipeline` whose first step takes texts, or a single estimator that does. It is cloned.
        smote: Fill rare classes with SMOTE's synthetic vectors, computed from the inputs of the last step.
        multi_label: Rows have several labels, as in `LinearProbe`: a copy of the last step for each class.

    Example:
        >>> student = TextPipeline(tfidf_pipeline()).fit(["a fine film", "a dull film"], ["pos", "neg"])
        >>> student.predict_proba(["a fine day"]).shape
        (1, 2)
    """

    def __init__(self, pipeline: Any, *, smote: bool = False, multi_label: bool = False) -> None:
        last = pipeline[-1] if has_steps(pipeline) else pipeline
        super().__init__(last, smote=smote, multi_label=multi_label)
        self._pipeline = pipeline
        self._features: Any = None
        if smote and not has_steps(pipeline):
            raise LindaError(f"smote needs vectors, but {type(pipeline).__name__} takes texts; give a Pipeline")

    def _trained_vectors(self, rows: TrainingRows, seed: int) -> Any:
        joined = _joined(rows.texts, rows.pairs)
        if not has_steps(self._pipeline):
            return joined
        self._features = with_random_state(self._pipeline[:-1], seed)
        known = (rows.targets >= PRESENT).astype(int) if self._multi_label else rows.targets.argmax(axis=1)
        return self._features.fit_transform(joined, known)

    def _vectors_of(self, texts: Sequence[str], pairs: Sequence[str] | None) -> Any:
        joined = _joined(texts, pairs)
        return joined if self._features is None else self._features.transform(joined)


def has_steps(estimator: Any) -> bool:
    """Whether this is a pipeline with steps before the classifier, which turn texts into vectors."""
    from sklearn.pipeline import Pipeline

    return isinstance(estimator, Pipeline) and len(estimator.steps) > 1


def import_pipeline(path: str) -> Any:
    """Return the estimator named by `module:attribute`, or its result if it is a function or a class.

    Modules in the working directory are found too.
    """
    module, _, attribute = path.partition(":")
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        found = getattr(import_module(module), attribute)
        estimator = found if hasattr(found, "fit") and not isinstance(found, type) else found()
    except Exception as error:  # user code can raise anything
        raise LindaError(f"cannot import the student {path!r}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(here)
    if not hasattr(estimator, "fit"):
        raise LindaError(f"the student {path!r} is a {type(estimator).__name__}; give a scikit-learn classifier")
    return estimator


def _joined(texts: Sequence[str], pairs: Sequence[str] | None) -> np.ndarray:
    """Return an array of texts, which can be indexed by row numbers."""
    both = texts if pairs is None else [f"{first} {second}" for first, second in zip(texts, pairs, strict=True)]
    array = np.empty(len(both), dtype=object)
    array[:] = both
    return array
