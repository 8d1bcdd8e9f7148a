"""Metrics of predicted probabilities.

All values are in percent, except the log loss, which is in nats. Metrics over classes are unweighted means over the
classes that the test rows have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linda.errors import LindaError

PRESENT = 0.5  # where rows may have several labels, a row has those of at least this value
_BINS = 15  # of the calibration error, of equal width
_COVERAGE = 0.8  # of accuracy_at_80: the share of the rows that are not rejected
_LEAST_COUNT = 1e-12  # avoids division by zero; a class that does not occur has no hits either
_LEAST_PROBABILITY = 1e-7  # lower bound in the log loss, which a single 0 would make infinite


@dataclass(frozen=True)
class Metric:
    name: str
    lower_is_better: bool = False
    is_percentage: bool = True
    is_decision: bool = False  # depends on the predicted class only, so a tuned threshold can change it

    @property
    def unit(self) -> str:
        return "points" if self.is_percentage else "nats"

    @property
    def decimals(self) -> int:
        return 1 if self.is_percentage else 3

    def shown(self, value: float, sign: bool = False) -> str:
        return f"{value:{'+' if sign else ''}.{self.decimals}f}"


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", is_decision=True),
        Metric("macro_f1", is_decision=True),
        Metric("balanced_accuracy", is_decision=True),
        Metric("auc"),
        Metric("average_precision"),
        Metric("log_loss", lower_is_better=True, is_percentage=False),
        Metric("brier", lower_is_better=True),
        Metric("ece", lower_is_better=True),
        Metric("accuracy_at_80"),
        Metric("error_auroc"),
    )
}
MULTI_LABEL_METRICS = ("macro_f1", "auc", "average_precision", "log_loss", "brier")
DECISIONS = tuple(name for name, metric in METRICS.items() if metric.is_decision)
TUNED = "_tuned"  # suffix of a decision metric whose threshold was tuned for it on folds of the training rows
_PER_CLASS = ("precision", "recall", "average_precision")  # as precision:CLASS, for rare classes

Scores = dict[str, float]


def find_metric(name: str) -> Metric:
    """Find a metric by its name in a cell: `auc`, `macro_f1_tuned`, `recall:CLASS`."""
    base, _, of_class = name.partition(":")
    known = METRICS.get(base.removesuffix(TUNED))
    if (known and known.is_decision and not of_class) or (known and name in METRICS):
        return Metric(name, known.lower_is_better, known.is_percentage)
    if of_class and base in _PER_CLASS:
        return Metric(name)
    tuned = [f"{decision}{TUNED}" for decision in DECISIONS]
    per_class = [f"{metric}:CLASS" for metric in _PER_CLASS]
    raise LindaError(f"unknown metric {name!r}; choose from {', '.join([*METRICS, *tuned, *per_class])}")


def score_probabilities(
    probabilities: np.ndarray, codes: np.ndarray, classes: Sequence[Any], rare: Sequence[Any] = ()
) -> Scores:
    """Compute all metrics of predictions.

    Args:
        probabilities: (N, C)
        codes: (N,) the column of the right class.
        classes: The names of the columns.
        rare: Classes whose precision, recall and average precision are reported separately.

    Returns:
        The value of each metric by its name. A metric that is undefined on these rows (the AUC of a test set with one
        class, `error_auroc` of predictions that are all right) is missing.

    Example:
        >>> score_probabilities(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1]), ["a", "b"])["accuracy"]
        100.0
    """
    from sklearn.metrics import average_precision_score, log_loss, precision_score, recall_score, roc_auc_score

    normalized = probabilities / probabilities.sum(axis=1, keepdims=True)
    chosen = normalized.argmax(axis=1)
    truth = np.eye(len(classes))[codes]
    present = [code for code in range(len(classes)) if 0 < truth[:, code].sum() < len(codes)]
    average_precision = {code: average_precision_score(truth[:, code], normalized[:, code]) for code in present}
    clipped = np.clip(normalized, _LEAST_PROBABILITY, 1)
    scores = score_decisions(chosen, codes, len(classes))
    if present:
        scores["auc"] = 100 * float(np.mean([roc_auc_score(truth[:, c], normalized[:, c]) for c in present]))
        scores["average_precision"] = 100 * float(np.mean(list(average_precision.values())))
    scores["log_loss"] = float(
        log_loss(codes, clipped / clipped.sum(axis=1, keepdims=True), labels=list(range(len(classes))))
    )
    scores["brier"] = 100 * float(((normalized - truth) ** 2).sum(axis=1).mean() / 2)
    scores["ece"] = 100 * calibration_error(normalized, codes)
    scores |= score_selection(normalized.max(axis=1), chosen == codes)
    for name in rare:
        code = list(classes).index(name)
        right, found = codes == code, chosen == code
        scores[f"precision:{name}"] = 100 * float(precision_score(right, found, zero_division=0))
        scores[f"recall:{name}"] = 100 * float(recall_score(right, found, zero_division=0))
        if code in average_precision:
            scores[f"average_precision:{name}"] = 100 * float(average_precision[code])
    return {name: round(value, 5) for name, value in scores.items()}


def score_multi_label(probabilities: np.ndarray, truth: np.ndarray) -> Scores:
    """Compute the metrics of rows that have several labels: means over the classes.

    Args:
        probabilities: (N, C), of each class independently.
        truth: (N, C) values from 0 to 1. For F1, AUC and average precision a row has the classes of at least 0.5.

    Returns:
        The value of each of `MULTI_LABEL_METRICS`. F1 is over the classes that any row has, at a probability of 0.5;
        AUC and average precision are over the classes that some rows have and others not. Without any, they are
        missing.

    Example:
        >>> score_multi_label(np.array([[0.9, 0.6], [0.2, 0.8]]), np.array([[1, 0], [0, 1]]))["macro_f1"]
        83.33333
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    has, found = truth >= PRESENT, probabilities >= PRESENT
    support, predicted, hits = has.sum(axis=0), found.sum(axis=0), (has & found).sum(axis=0)
    ranked = [code for code in range(truth.shape[1]) if 0 < support[code] < len(truth)]
    clipped = np.clip(probabilities, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    scores = {
        "log_loss": float(-(truth * np.log(clipped) + (1 - truth) * np.log(1 - clipped)).mean()),
        "brier": 100 * float(((probabilities - truth) ** 2).mean()),
    }
    if support.any():
        scores["macro_f1"] = 100 * float((2 * hits / np.maximum(support + predicted, 1))[support > 0].mean())
    for name, metric in (("auc", roc_auc_score), ("average_precision", average_precision_score)):
        if ranked:
            scores[name] = 100 * float(np.mean([metric(has[:, code], probabilities[:, code]) for code in ranked]))
    return {name: round(value, 5) for name, value in scores.items()}


def score_decisions(chosen: np.ndarray, codes: np.ndarray, n_classes: int) -> Scores:
    """Compute the metrics that depend on the predicted class only, from predicted (N,) and true (N,) classes."""
    hits = np.bincount(codes[chosen == codes], minlength=n_classes)
    support, predicted = (np.bincount(values, minlength=n_classes) for values in (codes, chosen))
    found = decision_scores(hits, support, predicted)
    return {name: 100 * float(found[name]) for name in DECISIONS}


def decision_scores(hits: np.ndarray, support: np.ndarray, predicted: np.ndarray) -> dict[str, np.ndarray]:
    """Compute metrics from counts (…, C): rows predicted correctly, rows of each class, rows predicted as it.

    Counts may be sums of weights.
    """
    present = support > 0
    return {
        "accuracy": hits.sum(axis=-1) / support.sum(),
        "macro_f1": (2 * hits / np.maximum(support + predicted, _LEAST_COUNT))[..., present].mean(axis=-1),
        "balanced_accuracy": (hits / np.maximum(support, _LEAST_COUNT))[..., present].mean(axis=-1),
    }


def score_selection(confidence: np.ndarray, right: np.ndarray) -> Scores:
    """Compute how well the confidence (N,) separates right from wrong predictions (`right`, (N,))."""
    from sklearn.metrics import roc_auc_score

    most_certain_first = np.argsort(-confidence, kind="stable")  # equally certain rows: in their order
    kept = most_certain_first[: round(_COVERAGE * len(right))]
    scores = {"accuracy_at_80": 100 * float(right[kept].mean())}
    if 0 < right.sum() < len(right):
        scores["error_auroc"] = 100 * float(roc_auc_score(right, confidence))
    return scores


def calibration_error(probabilities: np.ndarray, codes: np.ndarray) -> float:
    """Expected calibration error: |confidence − accuracy|, averaged over bins weighted by their number of rows."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == codes
    place = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    rows, sums, hits = (np.bincount(place, weights, _BINS) for weights in (None, confidence, right.astype(float)))
    return float(np.abs(sums - hits).sum() / rows.sum())
