"""Computes one cell: draws rows, makes new ones, trains the student and scores its predictions."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from linda.augmentation.labels import LabelName
from linda.benchmark.cells import Cell
from linda.benchmark.new_rows import NewRows, RowSources, class_codes, make_new_rows
from linda.benchmark.protocol import Split, draw, split, texts_not_drawn
from linda.benchmark.recipes import VANILLA, Recipe, Training
from linda.benchmark.settings import REST, BenchmarkSettings
from linda.benchmark.tasks import BenchmarkTask, LabelledRows, read_unlabelled
from linda.classifier.students import Student, make_student
from linda.evaluation.metrics import Scores, score_probabilities
from linda.evaluation.tuning import fit_temperature, held_out_probabilities, scaled, tuned_scores


def run_cell(cell: Cell, settings: BenchmarkSettings) -> dict[str, Any]:
    """Compute the result of one cell, in the form of its file."""
    started = time.perf_counter()
    task = cell.task.load()
    parts = split(task, cell.domain, settings.on, settings.test_size)
    rows = draw(task, parts.pool, cell.protocol, cell.seed)
    new = make_new_rows(cell.recipe, rows, task.classes, _sources(cell, settings, task, parts), cell.seed)
    made = time.perf_counter()
    trained = TrainedStudent.fit(cell, settings, task.classes, rows, new)
    fitted = time.perf_counter()
    rare = cell.protocol.rare_classes(task)
    scores = {name: trained.score(test, rare) for name, test in parts.tests.items()}
    main = scores[cell.domain] if cell.domain else next(iter(scores.values()))
    return {
        **cell.record(settings),
        "accuracy": main["accuracy"],
        "scores": scores,
        "temperature": trained.temperature,
        "rows": len(rows),
        "new_rows": len(new),
        "test_rows": {name: len(test) for name, test in parts.tests.items()},
        "updates": trained.student.updates or 0,
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        "seconds": {
            "augment": round(made - started, 1),
            "train": round(fitted - made, 1),
            "test": round(time.perf_counter() - fitted, 1),
        },
    }


def _sources(cell: Cell, settings: BenchmarkSettings, task: BenchmarkTask, parts: Split) -> RowSources:
    unlabelled: Sequence[str] = ()
    if cell.recipe.uses_unlabelled:
        if settings.unlabelled == REST:
            unlabelled = texts_not_drawn(task, parts.pool, cell.protocol, cell.seed)
        else:
            unlabelled = read_unlabelled(Path(str(settings.unlabelled)), settings.text, settings.label)
    fit = partial(_fit_teacher, replace(cell, recipe=Recipe(VANILLA)), settings)
    return RowSources(settings.models, settings.encoder, fit, unlabelled)


@lru_cache(maxsize=1)
def _fit_teacher(cell: Cell, settings: BenchmarkSettings) -> Student:
    """Train a teacher on the originals only. The methods of a seed run consecutively and share it."""
    task = cell.task.load()
    pool = split(task, cell.domain, settings.on, settings.test_size).pool
    rows = draw(task, pool, cell.protocol, cell.seed)
    return _fit_student(cell, settings.for_teacher(), task.classes, rows, None)


@dataclass(frozen=True)
class TrainedStudent:
    """A student, with held-out predictions for tuning."""

    student: Student
    classes: list[LabelName]
    train_codes: np.ndarray  # (N,)
    held_out: np.ndarray | None  # (N, C) of the training rows, each from a student that was not trained on it
    temperature: float | None = None

    @classmethod
    def fit(
        cls, cell: Cell, settings: BenchmarkSettings, classes: list[LabelName], rows: LabelledRows, new: NewRows
    ) -> TrainedStudent:
        """Train on all rows, and on the training part of each fold."""
        student = _fit_student(cell, settings, classes, rows, new)
        codes = class_codes(rows.labels, classes)
        if not settings.n_folds:
            return cls(student, classes, codes, None)

        def predict(training: np.ndarray, held_out: np.ndarray) -> np.ndarray:
            part = rows.take(training.tolist())
            fold = _fit_student(cell, settings, classes, part, new.made_of(training.tolist()))
            rest = rows.take(held_out.tolist())
            return fold.predict_proba(rest.texts, rest.pairs)

        found = held_out_probabilities(codes, len(classes), settings.n_folds, cell.seed, predict)
        if not cell.recipe.training.scaled:
            return cls(student, classes, codes, found)
        temperature = fit_temperature(found, codes)
        return cls(student, classes, codes, scaled(found, temperature), round(temperature, 4))

    def score(self, test: LabelledRows, rare: Sequence[LabelName]) -> Scores:
        """Compute all metrics on test rows, with the default threshold and with tuned ones."""
        probabilities = self.student.predict_proba(test.texts, test.pairs)
        if self.temperature is not None:
            probabilities = scaled(probabilities, self.temperature)
        codes = class_codes(test.labels, self.classes)
        scores = score_probabilities(probabilities, codes, self.classes, rare)
        if self.held_out is not None:
            scores |= tuned_scores(self.held_out, self.train_codes, probabilities, codes)
        return scores


def _fit_student(
    cell: Cell, settings: BenchmarkSettings, classes: list[LabelName], rows: LabelledRows, new: NewRows | None
) -> Student:
    """Train on originals and new rows; None: on the originals only."""
    texts, pairs = rows.texts, rows.pairs
    labels = np.eye(len(classes))[class_codes(rows.labels, classes)]
    weights = np.ones(len(rows))
    if new is not None:
        texts = texts + new.texts
        pairs = None if pairs is None else pairs + (new.pairs or [])
        labels = np.concatenate([labels, new.labels])
        weights = np.concatenate([weights, np.full(len(new), new.weight)])
    training = cell.recipe.training
    labels, weights = _trained_labels(labels, weights, training)
    how = settings.student_settings(cell.protocol, cell.recipe, len(rows), len(texts) - len(rows))
    student = make_student(settings.student, how)
    student.fit(texts, labels, pairs, weights.tolist(), classes=classes, seed=cell.seed)
    return student


def _trained_labels(labels: np.ndarray, weights: np.ndarray, training: Training) -> tuple[np.ndarray, np.ndarray]:
    """Apply class weights and label smoothing to labels (N, C) and weights (N,)."""
    if training.class_weights:
        mass = (labels * weights[:, None]).sum(axis=0)  # (C,)
        balanced = mass.sum() / np.maximum(mass, 1e-12) / (mass > 0).sum()
        weights = weights * (labels @ np.where(mass > 0, balanced, 0.0))
    if training.smoothing:
        labels = (1 - training.smoothing) * labels + training.smoothing / labels.shape[1]
    return labels, weights


@lru_cache(maxsize=1)
def describe_machine() -> str:
    """Return the number of cores and the processor."""
    return f"{os.cpu_count()} cores ({_processor()})"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine()
