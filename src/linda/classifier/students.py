"""The classifiers that a benchmark trains, by name: `finetune`, `probe`, `setfit`, `tfidf` or `module:attribute`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from linda.errors import LindaError

if TYPE_CHECKING:
    from linda.classifier.vectors import VectorCache

STUDENTS = ("finetune", "probe", "setfit", "tfidf")


class Student(Protocol):
    """A classifier of texts, or of pairs of texts, that takes soft labels and row weights."""

    classes_: list[Any]

    @property
    def updates(self) -> int | None: ...

    def fit(
        self,
        texts: Sequence[str],
        labels: Sequence[Any] | np.ndarray,
        pairs: Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
        *,
        classes: Sequence[Any] | None = None,
        seed: int = 0,
    ) -> Any: ...

    def predict_proba(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> np.ndarray: ...


@dataclass(frozen=True)
class StudentKind:
    """The requirements and capabilities of a student."""

    name: str
    uses_encoder: bool = False
    trains_encoder: bool = False  # training takes minutes instead of seconds
    uses_learning_rate: bool = False  # and batch size and epochs
    mixes_vectors: bool = False  # supports mixup of vectors within minibatches
    has_vectors: bool = True  # which SMOTE needs
    takes_multi_label: bool = True  # rows that have several labels


_KINDS = {
    "finetune": StudentKind(
        "finetune", True, trains_encoder=True, uses_learning_rate=True, mixes_vectors=True, has_vectors=False
    ),
    "probe": StudentKind("probe", uses_encoder=True),
    "setfit": StudentKind("setfit", uses_encoder=True, trains_encoder=True, takes_multi_label=False),
    "tfidf": StudentKind("tfidf"),
}


def find_student(name: str) -> StudentKind:
    """Return the kind of a student by its name or import path."""
    if name in _KINDS:
        return _KINDS[name]
    if ":" not in name:
        raise LindaError(
            f"unknown student {name!r}; choose from {', '.join(STUDENTS)}, or a scikit-learn pipeline "
            "(module:attribute)"
        )
    from linda.classifier.text_pipeline import has_steps, import_pipeline

    return StudentKind(name, has_vectors=has_steps(import_pipeline(name)))


@dataclass(frozen=True)
class StudentSettings:
    """Training settings. A student ignores those that do not apply to it.

    Attributes:
        encoder: Folder or hub name; None is all-MiniLM-L6-v2.
        max_length: Tokens of a text that the encoder reads.
        learning_rate, batch_size, updates: Of `finetune`; `setfit` takes `contrastive_updates`.
        mixup: λ ~ Beta(mixup, mixup) of `finetune`; None is no mixup.
        smote: Fill rare classes with SMOTE's synthetic vectors.
        multi_label: Rows have several labels; `setfit` takes one.
        vector_cache: File with vectors of `probe` from earlier runs.
    """

    encoder: str | None = None
    max_length: int = 256
    learning_rate: float | None = None
    batch_size: int = 32
    updates: int | None = None
    contrastive_updates: int | None = None
    mixup: float | None = None
    smote: bool = False
    multi_label: bool = False
    vector_cache: VectorCache | None = None


def make_student(name: str, settings: StudentSettings) -> Student:
    """Create an untrained student.

    Example:
        >>> student = make_student("tfidf", StudentSettings())
        >>> student.fit(["a fine film", "a dull film"], ["pos", "neg"]).classes_
        ['neg', 'pos']
    """
    if name == "finetune":
        from linda.classifier.text_classifier import TextClassifier

        return TextClassifier(
            settings.encoder,
            learning_rate=settings.learning_rate,
            batch_size=settings.batch_size,
            updates=settings.updates,
            mixup=settings.mixup,
            max_length=settings.max_length,
            multi_label=settings.multi_label,
        )
    if name == "probe":
        from linda.classifier.probe import LinearProbe

        return LinearProbe(
            settings.encoder,
            max_length=settings.max_length,
            smote=settings.smote,
            multi_label=settings.multi_label,
            vector_cache=settings.vector_cache,
        )
    if name == "setfit":
        from linda.classifier.contrastive import ContrastiveClassifier

        return ContrastiveClassifier(
            settings.encoder,
            updates=settings.contrastive_updates,
            max_length=settings.max_length,
            smote=settings.smote,
        )
    from linda.classifier.text_pipeline import TextPipeline, import_pipeline, tfidf_pipeline

    pipeline = tfidf_pipeline() if name == "tfidf" else import_pipeline(name)
    return TextPipeline(pipeline, smote=settings.smote, multi_label=settings.multi_label)
