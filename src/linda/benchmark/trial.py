"""Computes one cell: draws rows, makes new ones, trains the student and scores its predictions."""

from __future__ import annotations

import os
import platform
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache, partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from linda.benchmark.cells import Cell
from linda.benchmark.new_rows import NewRows, RowSources, make_new_rows
from linda.benchmark.protocol import Split, draw, split, texts_not_drawn
from linda.benchmark.recipes import VANILLA, Recipe, Training
from linda.benchmark.run_cache import run_cache
from linda.benchmark.settings import REST, BenchmarkSettings
from linda.benchmark.tasks import BenchmarkTask, LabelledRows, class_codes, unlabelled_texts
from linda.classifier.students import Student, make_student
from linda.classifier.text_classifier import TextClassifier, WatchedRows
from linda.evaluation.metrics import Scores, score_multi_label, score_probabilities
from linda.evaluation.tuning import (
    fit_temperature,
    held_out_probabilities,
    scaled,
    stratified_folds,
    tuned_scores,
)
from linda.planning.labels import LabelName


def run_cell(cell: Cell, settings: BenchmarkSettings) -> dict[str, Any]:
    """Compute the result of one cell: the content of its file."""
    started = time.perf_counter()
    task = cell.task.load()
    parts = split(task, cell.domain, settings.on, settings.test_size)
    rows = draw(task, parts.pool, cell.protocol, cell.seed)
    new = make_new_rows(cell.recipe, rows, task.classes, _sources(cell, settings, task, parts), cell.seed)
    made = time.perf_counter()
    trained = TrainedStudent.fit(cell, settings, task.classes, rows, new)
    fitted = time.perf_counter()
    rare = cell.protocol.rare_classes(task)
    shares = None if task.is_multi_label else class_shares(parts.pool, task.classes)
    scores = {name: trained.score(test, rare, shares) for name, test in parts.tests.items()}
    main = scores[cell.domain] if cell.domain else next(iter(scores.values()))
    return {
        **cell.record(settings),
        **{name: main[name] for name in ("accuracy",) if name in main},
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
            unlabelled = unlabelled_texts(str(settings.unlabelled), settings.text, settings.label)
    fit = partial(_fit_teacher, replace(cell, recipe=Recipe(VANILLA)), settings)
    return RowSources(settings.models, settings.encoder, fit, unlabelled, settings.cache)


@run_cache(maxsize=1)
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
    train_codes: np.ndarray | None = None  # (N,)
    held_out: np.ndarray | None = None  # (N, C) of the training rows, each from a student that was not trained on it
    temperature: float | None = None

    @classmethod
    def fit(
        cls, cell: Cell, settings: BenchmarkSettings, classes: list[LabelName], rows: LabelledRows, new: NewRows
    ) -> TrainedStudent:
        """Train on all rows, and on the training part of each fold."""
        training = cell.recipe.training
        folds = settings.folds_of(cell.recipe)
        share = _best_share_of_updates(cell, settings, classes, rows, new) if training.early_stopping else 1.0
        student = _fit_student(cell, settings, classes, rows, new, share)
        if not settings.n_folds and not training.scaled:
            return cls(student, classes)
        codes = class_codes(rows.labels, classes)

        def predict(trained: np.ndarray, held_out: np.ndarray) -> np.ndarray:
            part, rest = rows.take(trained.tolist()), rows.take(held_out.tolist())
            fold = _fit_student(cell, settings, classes, part, new.made_of(trained.tolist()), share)
            return fold.predict_proba(rest.texts, rest.pairs)

        found = held_out_probabilities(codes, len(classes), folds, cell.seed, predict)
        if not training.scaled:
            return cls(student, classes, codes, found)
        temperature = round(fit_temperature(found, codes), 4)
        # Without folds for all methods, thresholds are tuned for none.
        held_out = scaled(found, temperature) if settings.n_folds else None
        return cls(student, classes, codes, held_out, temperature)

    def score(self, test: LabelledRows, rare: Sequence[LabelName], shares: np.ndarray | None) -> Scores:
        """Compute all metrics on test rows, with the default threshold and with tuned ones.

        shares: (C,) of the classes in the data that training rows are drawn from; thresholds are tuned for these.
        """
        probabilities = self.student.predict_proba(test.texts, test.pairs)
        if self.temperature is not None:
            probabilities = scaled(probabilities, self.temperature)
        if test.is_multi_label:
            return score_multi_label(probabilities, test.targets(self.classes))
        codes = class_codes(test.labels, self.classes)
        scores = score_probabilities(probabilities, codes, self.classes, rare)
        if self.held_out is not None and self.train_codes is not None:
            scores |= tuned_scores(self.held_out, self.train_codes, probabilities, codes, shares)
        return scores


def _best_share_of_updates(
    cell: Cell, settings: BenchmarkSettings, classes: list[LabelName], rows: LabelledRows, new: NewRows
) -> float:
    """Return the share of the updates after which held-out folds have the lowest mean log loss."""
    folds = stratified_folds(class_codes(rows.labels, classes), settings.folds_of(cell.recipe), cell.seed)
    losses: dict[float, list[float]] = defaultdict(list)
    for trained, held_out in folds:
        part, rest = rows.take(trained.tolist()), rows.take(held_out.tolist())
        watched = WatchedRows(rest.texts, rest.pairs, rest.labels)
        student = _fit_student(cell, settings, classes, part, new.made_of(trained.tolist()), watched=watched)
        assert isinstance(student, TextClassifier)
        for share, loss in student.losses_.items():
            losses[share].append(loss)
    return min(losses, key=lambda share: mean(losses[share]))


def _fit_student(
    cell: Cell,
    settings: BenchmarkSettings,
    classes: list[LabelName],
    rows: LabelledRows,
    new: NewRows | None,
    share_of_updates: float = 1.0,
    watched: WatchedRows | None = None,
) -> Student:
    """Train on originals and new rows; None: on the originals only.

    Args:
        cell: The method, the protocol and the seed.
        settings: The student.
        classes: All classes, in the order of the columns of labels.
        rows: The originals.
        new: The new rows.
        share_of_updates: Stop after this share of the updates.
        watched: See `TextClassifier.fit`.
    """
    texts, pairs = rows.texts, rows.pairs
    labels = rows.targets(classes)
    weights = np.ones(len(rows))
    if new is not None:
        texts = texts + new.texts
        pairs = None if pairs is None else pairs + (new.pairs or [])
        labels = np.concatenate([labels, new.labels])
        weights = np.concatenate([weights, new.weights])
    training = cell.recipe.training
    labels, weights = _trained_labels(labels, weights, training)
    how = settings.student_settings(cell.protocol, cell.recipe, len(rows), len(texts) - len(rows))
    how = replace(how, multi_label=rows.is_multi_label)
    if how.updates and share_of_updates < 1:
        how = replace(how, updates=max(1, round(share_of_updates * how.updates)))
    student = make_student(settings.student, how)
    more: dict[str, Any] = {} if watched is None else {"watched": watched}
    student.fit(texts, labels, pairs, weights.tolist(), classes=classes, seed=cell.seed, **more)
    return student


def class_shares(rows: LabelledRows, classes: list[LabelName]) -> np.ndarray:
    """Return the share (C,) of each class."""
    return np.bincount(class_codes(rows.labels, classes), minlength=len(classes)) / len(rows)


def _trained_labels(labels: np.ndarray, weights: np.ndarray, training: Training) -> tuple[np.ndarray, np.ndarray]:
    """Apply class weights and label smoothing to labels (N, C) and weights (N,)."""
    if training.class_weights:
        mass = (labels * weights[:, None]).sum(axis=0)  # (C,)
        balanced = labels * np.where(mass > 0, mass.sum() / np.maximum(mass, 1e-12) / (mass > 0).sum(), 0.0)
        # A soft label has a part in several classes, and each part has the weight of its own class.
        weights = weights * balanced.sum(axis=1)
        labels = balanced / balanced.sum(axis=1, keepdims=True)
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
