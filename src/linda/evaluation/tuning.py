"""Tuning after training: thresholds and a temperature, on held-out folds of the training rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from linda.evaluation.metrics import DECISIONS, TUNED, Scores, decision_scores, score_decisions

_RESAMPLES = 10  # of the held-out rows
_ROUNDS = 3  # passes over the classes, whose offsets are tuned one after the other
_LEAST_PROBABILITY = 1e-30  # of a class that is missing in a fold
_TEMPERATURES = np.geomspace(0.05, 20, 241)


def stratified_folds(codes: np.ndarray, n_folds: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield training rows and held-out rows of each fold. Every class is spread over the folds evenly."""
    random = np.random.default_rng([seed, n_folds])
    fold = np.empty(len(codes), dtype=int)
    start = 0
    for code in np.unique(codes):
        members = random.permutation(np.flatnonzero(codes == code))
        fold[members] = (start + np.arange(len(members))) % n_folds
        start += len(members)  # spread small classes over different folds
    for number in range(n_folds):
        if (fold == number).any() and (fold != number).any():
            yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def held_out_probabilities(
    codes: np.ndarray, n_classes: int, n_folds: int, seed: int, predict: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Predict the probabilities (N, C) of each row with a classifier that was not trained on it.

    Args:
        codes: (N,) class of each row.
        n_classes: C
        n_folds: Number of folds.
        seed: Seed of the folds.
        predict: Trains on the rows of the first argument and predicts those of the second.
    """
    probabilities = np.full((len(codes), n_classes), 1 / n_classes)
    for training, held_out in stratified_folds(codes, n_folds, seed):
        probabilities[held_out] = predict(training, held_out)
    return probabilities


def stable_offsets(probabilities: np.ndarray, codes: np.ndarray, metric: str, weights: np.ndarray) -> np.ndarray:
    """Find offsets (C,) of the log-probabilities that are good for `metric` on rows like these.

    The best offsets on a few rows overfit them. So this is the mean of the best offsets on random resamples.

    Args:
        probabilities: (N, C)
        codes: (N,) the column of the right class.
        metric: Name of a decision metric.
        weights: (N,) of the rows.

    Example:
        stable_offsets(held_out, codes, "macro_f1", np.ones(len(codes)))
    """
    random = np.random.default_rng(_RESAMPLES)  # a fixed seed: all methods are compared on the same resamples
    members = [np.flatnonzero(codes == code) for code in np.unique(codes)]
    found = []
    for _ in range(_RESAMPLES):
        rows = np.concatenate([random.choice(rows, len(rows)) for rows in members])
        offsets = tune_offsets(probabilities[rows], codes[rows], metric, weights[rows])
        found.append(offsets - offsets.mean())  # the same for all classes changes nothing
    return np.asarray(np.mean(found, axis=0))


def tune_offsets(
    probabilities: np.ndarray, codes: np.ndarray, metric: str, weights: np.ndarray | None = None
) -> np.ndarray:
    """Find offsets (C,) of the log-probabilities for which the argmax maximizes `metric` on these rows.

    With two classes this is the decision threshold. With more, the offset of one class after the other is set to its
    best value, with the others fixed. Offsets change only if that is an improvement.

    Args:
        probabilities: (N, C)
        codes: (N,) the column of the right class.
        metric: Name of a decision metric.
        weights: (N,) of the rows; None: 1.

    Example:
        >>> tune_offsets(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1]), "accuracy")[1] > 0.4
        True
    """
    weights = np.ones(len(codes)) if weights is None else weights
    scores = _log(probabilities)
    n_classes = scores.shape[1]
    offsets = np.zeros(n_classes)
    tunable = range(1, n_classes) if n_classes == 2 else range(n_classes)
    for _ in range(_ROUNDS):
        before = offsets.copy()
        for column in tunable:
            offsets[column] = _best_offset(scores, offsets, codes, column, metric, weights)
        if np.array_equal(before, offsets):
            break
    return offsets


def _best_offset(
    scores: np.ndarray, offsets: np.ndarray, codes: np.ndarray, column: int, metric: str, weights: np.ndarray
) -> float:
    """Find the best offset of one class. A row flips to it at the offset where it overtakes its best rival."""
    rivals = scores + offsets
    rivals[:, column] = -np.inf
    rival = rivals.argmax(axis=1)
    flips = rivals.max(axis=1) - scores[:, column]  # (N,) the offset at which each row flips
    order = np.argsort(flips)
    n_rows, n_classes = scores.shape
    # Weights of the rows after the first 0, 1 … N rows flipped, (N + 1, C).
    hits, predicted = (np.zeros((n_rows + 1, n_classes)) for _ in range(2))
    steps, moved, right = np.arange(1, n_rows + 1), weights[order], rival == codes
    predicted[0] = np.bincount(rival, weights, n_classes)
    predicted[steps, rival[order]] -= moved
    predicted[steps, column] += moved
    hits[0] = np.bincount(codes[right], weights[right], n_classes)
    hits[steps, codes[order]] -= moved * right[order]
    hits[steps, column] += moved * (codes[order] == column)
    support = np.bincount(codes, weights, n_classes)
    found = decision_scores(hits.cumsum(axis=0), support, predicted.cumsum(axis=0))[metric]
    current = int((flips[order] <= offsets[column]).sum())
    distinct = np.r_[True, np.diff(flips[order]) > 1e-12, True]  # rows with one flip point flip together
    found = np.where(distinct, found, -1)
    if found.max() <= found[current] + 1e-12:
        return float(offsets[column])
    best = np.flatnonzero(found >= found.max() - 1e-12)
    place = best[np.abs(best - current).argmin()]  # among equally good offsets, the smallest change
    edges = np.r_[flips[order][0] - 2, flips[order], flips[order][-1] + 2]
    return float((edges[place] + edges[place + 1]) / 2)


def tuned_scores(
    held_out: np.ndarray,
    train_codes: np.ndarray,
    probabilities: np.ndarray,
    test_codes: np.ndarray,
    shares: np.ndarray | None = None,
) -> Scores:
    """Compute each decision metric on the test rows, with offsets tuned for it on held-out training rows.

    The best threshold depends on the shares of the classes. If training rows are drawn with other shares than those of
    the test rows, held-out rows need weights that undo this.

    Args:
        held_out: (N, C) probabilities of the training rows, from `held_out_probabilities`.
        train_codes: (N,) their classes.
        probabilities: (M, C) of the test rows.
        test_codes: (M,) their classes.
        shares: (C,) expected shares of the classes in the test rows; None: as in the training rows.

    Returns:
        The value of each decision metric, by its name with `_tuned`.

    Example:
        tuned_scores(held_out, train_codes, probabilities, test_codes, shares=np.array([0.5, 0.5]))
    """
    weights = np.ones(len(train_codes))
    if shares is not None:
        drawn = np.bincount(train_codes, minlength=len(shares)) / len(train_codes)
        weights = (shares / np.maximum(drawn, 1e-12))[train_codes]
    scores = {}
    for metric in DECISIONS:
        offsets = stable_offsets(held_out, train_codes, metric, weights)
        chosen = (_log(probabilities) + offsets).argmax(axis=1)
        scores[metric + TUNED] = round(score_decisions(chosen, test_codes, held_out.shape[1])[metric], 5)
    return scores


def fit_temperature(held_out: np.ndarray, codes: np.ndarray) -> float:
    """Find the temperature with the lowest log loss on held-out rows (Guo et al. 2017)."""
    losses = [-np.log(scaled(held_out, t)[np.arange(len(codes)), codes] + 1e-12).mean() for t in _TEMPERATURES]
    return float(_TEMPERATURES[int(np.argmin(losses))])


def scaled(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Scale probabilities (N, C) by a temperature: softmax(log p / T)."""
    logits = _log(probabilities) / temperature
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _log(probabilities: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(probabilities, _LEAST_PROBABILITY)))
