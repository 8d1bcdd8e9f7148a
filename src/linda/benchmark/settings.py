"""Settings that all cells of a folder have in common."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from linda.benchmark.models import Models, file_name, model_name
from linda.benchmark.protocol import ON, Protocol
from linda.benchmark.recipes import Recipe
from linda.benchmark.run_cache import run_cache
from linda.classifier.contrastive import contrastive_updates
from linda.classifier.encoder import DEFAULT_ENCODER, is_default_encoder, known_learning_rate
from linda.classifier.students import STUDENTS, StudentKind, StudentSettings, find_student
from linda.classifier.vectors import VectorCache
from linda.errors import LindaError

BUDGETS = ("updates", "epochs")
REST = "rest"  # unlabelled texts: the training rows that a seed does not draw

_QUICK_FOLDS = 5
_SLOW_FOLDS = 3  # of methods that need folds, if every fold costs minutes


@dataclass(frozen=True)
class BenchmarkSettings:
    """Settings of all cells of a folder. The defaults are those of the paper, except for the encoder.

    Attributes:
        encoder: Folder or hub name; None is all-MiniLM-L6-v2.
        learning_rate: Learning rate of the student `finetune`.
        batch_size: None: 8 with shots, 32 without.
        epochs: None: 30 with shots, 5 without.
        budget: `updates`: every method gets the updates of vanilla. `epochs`: every method is trained for the same
            epochs over all its rows, so that more rows mean more updates, as in the paper.
        max_length: Tokens of a text that the encoder reads.
        test_size: Maximum number of rows of each test set.
        on: `test` or `validation`.
        models: The models of the augmentation methods.
        student: `finetune`, `probe`, `setfit`, `tfidf` or `module:attribute`.
        folds: Folds of the training rows on which thresholds and temperatures are tuned; 0: none; None: 5 for students
            that train in seconds; for others 3 for temperatures and early stopping, and none for thresholds.
        teacher: The student that labels new texts; None: the same as `student`.
        teacher_encoder: Encoder of the teacher; None: the same as `encoder`.
        unlabelled: A file of texts without labels, or `rest`.
        text: The column of the text in `unlabelled`.
        label: The column that `unlabelled` must not have.
        cache: File that keeps generated texts and vectors for other runs; None: they are computed in every run.
    """

    encoder: str | None = None
    learning_rate: float = 3e-5
    batch_size: int | None = None
    epochs: int | None = None
    budget: str = "updates"
    max_length: int = 256
    test_size: int | None = None
    on: str = "test"
    models: Models = field(default_factory=Models)
    student: str = "finetune"
    folds: int | None = None
    teacher: str | None = None
    teacher_encoder: str | None = None
    unlabelled: str | None = None
    text: str = "text"
    label: str = "label"
    cache: str | None = None

    def __post_init__(self) -> None:
        for name, known in (("budget", BUDGETS), ("on", ON)):
            if getattr(self, name) not in known:
                raise LindaError(f"{name} is {getattr(self, name)!r}; give {' or '.join(known)}")
        if self.folds is not None and (self.folds < 0 or self.folds == 1):
            raise LindaError(f"folds is {self.folds}; give 0 for none, or at least 2")

    @property
    def kind(self) -> StudentKind:
        return find_student(self.student)

    @property
    def n_folds(self) -> int:
        """Folds of every method, on which thresholds are tuned."""
        if self.folds is not None:
            return self.folds
        return 0 if self.kind.trains_encoder else _QUICK_FOLDS

    def folds_of(self, recipe: Recipe) -> int:
        """Folds of one method: a method that needs folds has some, unless `folds` says otherwise."""
        needs_folds = recipe.training.needs_folds and self.folds is None
        return self.n_folds or (_SLOW_FOLDS if needs_folds else 0)

    @property
    def teacher_name(self) -> str:
        return self.teacher or self.student

    def batch_size_for(self, protocol: Protocol) -> int:
        return self.batch_size or (8 if protocol.is_low_resource else 32)

    def epochs_for(self, protocol: Protocol) -> int:
        return self.epochs or (30 if protocol.is_low_resource else 5)

    def student_settings(self, protocol: Protocol, recipe: Recipe, n_rows: int, n_new: int) -> StudentSettings:
        """Return the training settings for this many original and new rows."""
        counted = n_rows if self.budget == "updates" else n_rows + n_new
        batch_size = self.batch_size_for(protocol)
        cache = None if self.cache is None else VectorCache(Path(self.cache), str(_encoder_name(self.encoder)))
        return StudentSettings(
            self.encoder,
            self.max_length,
            learning_rate=self.learning_rate,
            batch_size=batch_size,
            updates=self.epochs_for(protocol) * math.ceil(counted / batch_size),
            contrastive_updates=contrastive_updates(counted),
            mixup=recipe.training.mixup or None,
            smote=recipe.training.smote,
            vector_cache=cache,
        )

    def for_teacher(self) -> BenchmarkSettings:
        """Return the settings with the teacher as the student."""
        encoder = self.teacher_encoder or self.encoder
        return replace(self, student=self.teacher_name, encoder=encoder, learning_rate=self._teacher_rate)

    @property
    def _teacher_rate(self) -> float:
        """The student's rate, if the teacher has the same encoder; else the one known for its encoder."""
        is_shared = self.kind.uses_learning_rate and self.teacher_encoder is None
        known = None if is_shared else known_learning_rate(self.teacher_encoder or self.encoder)
        return known or self.learning_rate

    def record(self, recipe: Recipe, protocol: Protocol) -> dict[str, Any]:
        """Return the settings that affect a cell's result, without local paths."""
        shared: dict[str, Any] = {"student": self.student, "folds": self.n_folds}
        if self.student not in STUDENTS:
            shared["pipeline"] = _described(self.student)
        if self.kind.uses_encoder:
            shared |= {"encoder": _encoder_name(self.encoder), "max_length": self.max_length}
        if self.kind.uses_learning_rate:
            shared |= {"learning_rate": self.learning_rate, "batch_size": self.batch_size_for(protocol)}
            shared |= {"epochs": self.epochs_for(protocol)}
        if self.kind.trains_encoder:
            shared["budget"] = self.budget
        shared |= {"test_size": self.test_size, "on": self.on}
        if self.folds_of(recipe) != self.n_folds:
            shared["held_out_folds"] = self.folds_of(recipe)
        if recipe.uses_teacher:
            shared["teacher"] = self.teacher_name
            kind = find_student(self.teacher_name)
            if kind.uses_encoder:
                shared["teacher_encoder"] = _encoder_name(self.teacher_encoder or self.encoder)
            if kind.uses_learning_rate:
                shared["teacher_learning_rate"] = self._teacher_rate
        if recipe.uses_unlabelled:
            shared["unlabelled"] = self.unlabelled if self.unlabelled == REST else file_name(str(self.unlabelled))
        for source in recipe.sources:
            shared |= self.models.record(source)
        return shared


def _encoder_name(encoder: str | None) -> str | None:
    return DEFAULT_ENCODER if is_default_encoder(encoder) else model_name(encoder)


@run_cache(maxsize=4)
def _described(student: str) -> str:
    """Describe a user's pipeline by its steps and parameters, because its name does not change with them."""
    from linda.classifier.text_pipeline import import_pipeline

    return " ".join(repr(import_pipeline(student)).split())
