"""The rows that a method adds to the training rows.

This module is the only place where the benchmark calls `linda.augmentation` to make rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linda.augmentation import Augmenter
from linda.augmentation.gates import Gates
from linda.augmentation.pipeline import checked_examples, planned_rows
from linda.augmentation.tables import as_table
from linda.benchmark.models import Models, load_method
from linda.benchmark.recipes import OVERSAMPLE, PSEUDO_LABEL, UNLABELLED, Policy, Recipe
from linda.benchmark.tasks import LabelledRows, class_codes
from linda.classifier.students import Student
from linda.errors import LindaError
from linda.planning.balance import LARGEST
from linda.planning.labels import LabelName
from linda.planning.plan import Plan

_UNLABELLED = 1  # random stream


@dataclass(frozen=True)
class NewRows:
    """Rows to train on in addition to the originals."""

    texts: list[str]
    pairs: list[str] | None
    labels: np.ndarray  # (N, C)
    weights: np.ndarray  # (N,)
    parents: list[tuple[int, ...]]  # the original rows that each was made from

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: Sequence[int]) -> NewRows:
        rows = list(rows)
        pairs = None if self.pairs is None else [self.pairs[row] for row in rows]
        parents = [self.parents[row] for row in rows]
        return NewRows([self.texts[row] for row in rows], pairs, self.labels[rows], self.weights[rows], parents)

    def made_of(self, originals: Sequence[int]) -> NewRows:
        """Select rows whose parents are all among these originals: a fold must not see its held-out rows."""
        known = set(originals)
        return self.take([row for row, parents in enumerate(self.parents) if known.issuperset(parents)])


@dataclass(frozen=True)
class RowSources:
    """Models and texts that new rows are made with.

    Attributes:
        models: The models of the augmentation methods.
        encoder: Finds the nearest partners.
        fit_teacher: Trains the teacher; called only if a method needs one.
        unlabelled: Texts without labels.
        cache: File with texts of earlier runs.
    """

    models: Models
    encoder: str | None
    fit_teacher: Callable[[], Student]
    unlabelled: Sequence[str] = ()
    cache: str | None = None


def make_new_rows(
    recipe: Recipe, rows: LabelledRows, classes: list[LabelName], sources: RowSources, seed: int
) -> NewRows:
    """Make new rows from training rows; none for methods that only change the training.

    Args:
        recipe: The method.
        rows: The training rows.
        classes: All classes, in the order of the columns of labels.
        sources: Models, teacher and unlabelled texts.
        seed: Seed of partners, ratios and texts.
    """
    if recipe.uses_unlabelled and rows.pairs is not None:
        raise LindaError(f"{recipe.name} uses unlabelled texts, which a task on pairs of texts does not have")
    if recipe.source == PSEUDO_LABEL:
        return _pseudo_labelled(recipe.policy, rows, classes, sources, seed)
    if recipe.source == OVERSAMPLE:
        return _copies(recipe.policy, rows, classes)
    if not recipe.augments:
        return NewRows([], None if rows.pairs is None else [], np.zeros((0, len(classes))), np.zeros(0), [])
    teacher = sources.fit_teacher() if recipe.uses_teacher else None
    pseudo = None
    if recipe.policy.pseudo_rows:  # they are used like original rows
        as_originals = replace(recipe.policy, per_row=recipe.policy.pseudo_rows, weight=1.0)
        pseudo = _pseudo_labelled(as_originals, rows, classes, sources, seed)
    parts = [_augmented(part, rows, classes, sources, teacher, pseudo, seed) for part in recipe.parts or (recipe,)]
    new = _joined(parts if pseudo is None else [pseudo, *parts])
    return new if teacher is None else _agreed(new, teacher, recipe.policy.keep)


def _joined(parts: list[NewRows]) -> NewRows:
    """Concatenate the rows of several methods."""
    return NewRows(
        texts=[text for part in parts for text in part.texts],
        pairs=None if parts[0].pairs is None else [pair for part in parts for pair in part.pairs or ()],
        labels=np.concatenate([part.labels for part in parts]),
        weights=np.concatenate([part.weights for part in parts]),
        parents=[parents for part in parts for parents in part.parents],
    )


# --- augmentation methods ---------------------------------------------------------------------------------------


def _augmented(
    recipe: Recipe,
    rows: LabelledRows,
    classes: list[LabelName],
    sources: RowSources,
    teacher: Student | None,
    pseudo: NewRows | None,
    seed: int,
) -> NewRows:
    policy = recipe.policy
    mixes_unlabelled = recipe.mixes and policy.partners == UNLABELLED
    balances = policy.balance and not mixes_unlabelled  # unlabelled partners need a separate plan
    augmenter = Augmenter(
        pair=None if rows.pairs is None else "pair",
        method=load_method(str(recipe.source), sources.models, policy.raw_ratio, sources.cache),
        per_row=1 if balances else policy.per_row,
        balance=LARGEST if balances else None,
        partners="any" if policy.partners == UNLABELLED else policy.partners,
        ratio=policy.ratio,
        labels=policy.labels,
        temperature=policy.temperature,
        teacher=teacher,
        encoder=sources.encoder,
        multi_label=rows.is_multi_label,
        classes=classes,
        weight=policy.weight,
        gates=Gates() if policy.gates else Gates(**dict.fromkeys(Gates.names(), False)),
        seed=seed,
        only_new=True,
    )
    data: dict[str, list[Any]] = {"text": rows.texts, "label": rows.labels}
    if rows.pairs is not None:
        data["pair"] = rows.pairs
    if pseudo is not None:
        labels = np.concatenate([rows.targets(classes), pseudo.labels])
        data = {"text": rows.texts + pseudo.texts, "label": labels.tolist()}
    plan = None
    if mixes_unlabelled:
        assert teacher is not None
        settings = augmenter.settings
        if policy.balance:
            settings = replace(settings, per_row=1, balance=LARGEST)
        plan, _ = planned_rows(checked_examples(as_table(data), settings), settings)
        data, plan = _with_unlabelled(augmenter, data, plan, classes, sources.unlabelled, teacher)
    made = augmenter.augment(data, plan)
    pairs = None if rows.pairs is None else [row["pair"] for row in made]
    labels = np.array([row["label_probs"] for row in made]).reshape(len(made), len(classes))
    parents = [
        tuple(parent for parent in (row["parent_a"], row["parent_b"]) if parent is not None and parent < len(rows))
        for row in made
    ]
    return NewRows([row["text"] for row in made], pairs, labels, np.full(len(made), policy.weight), parents)


def _with_unlabelled(
    augmenter: Augmenter,
    data: dict[str, list[Any]],
    plan: Plan,
    classes: list[LabelName],
    unlabelled: Sequence[str],
    teacher: Student,
) -> tuple[dict[str, list[Any]], Plan]:
    """Append unlabelled rows with the teacher's labels, and return a plan with those as partners."""
    drawn = np.resize(_drawn_unlabelled(augmenter.settings.seed, len(unlabelled)), len(plan))
    used, place = np.unique(drawn, return_inverse=True)
    texts = [unlabelled[row] for row in used]
    hard = np.eye(len(classes))[class_codes(data["label"], classes)]
    labels = np.concatenate([hard, _ordered(teacher, texts, classes)])
    joined: dict[str, list[Any]] = {"text": data["text"] + texts, "label": labels.tolist()}
    return joined, replace(plan, partner=len(data["text"]) + place)


def _agreed(new: NewRows, teacher: Student, keep: float) -> NewRows:
    """Keep rows whose label and the teacher's prediction overlap by at least `keep`: Σᵢ min(yᵢ, pᵢ)."""
    if keep == 0 or not len(new):
        return new
    shared = np.minimum(new.labels, teacher.predict_proba(new.texts, new.pairs)).sum(axis=1)
    return new.take(np.flatnonzero(shared >= keep).tolist())


# --- rows without augmentation ----------------------------------------------------------------------------------


def _pseudo_labelled(
    policy: Policy, rows: LabelledRows, classes: list[LabelName], sources: RowSources, seed: int
) -> NewRows:
    """Label `per_row` unlabelled texts per row, or all of them, with the teacher."""
    drawn = _drawn_unlabelled(seed, len(sources.unlabelled))[: policy.per_row * len(rows)]
    texts = [sources.unlabelled[row] for row in drawn]
    labels = _ordered(sources.fit_teacher(), texts, classes)
    return NewRows(texts, None, labels, np.full(len(texts), policy.weight), [()] * len(texts))


def _drawn_unlabelled(seed: int, count: int) -> np.ndarray:
    """Return the order in which a seed takes unlabelled texts (count,): the same texts for all methods."""
    return np.random.default_rng([seed, _UNLABELLED]).permutation(count)


def _copies(policy: Policy, rows: LabelledRows, classes: list[LabelName]) -> NewRows:
    """Repeat rows of smaller classes, each equally often, until every class is as large as the largest."""
    codes = class_codes(rows.labels, classes)
    counts = np.bincount(codes, minlength=len(classes))
    chosen = [
        int(row)
        for code in np.flatnonzero(counts)
        for row in np.resize(np.flatnonzero(codes == code), counts.max() - counts[code])
    ]
    part = rows.take(chosen)
    weights = np.full(len(chosen), policy.weight)
    return NewRows(part.texts, part.pairs, np.eye(len(classes))[codes[chosen]], weights, [(n,) for n in chosen])


def _ordered(teacher: Student, texts: list[str], classes: list[LabelName]) -> np.ndarray:
    """Return the teacher's probabilities (N, C), with columns in the order of `classes`."""
    probabilities = np.zeros((len(texts), len(classes)))
    if texts:
        probabilities[:, class_codes(teacher.classes_, classes)] = teacher.predict_proba(texts)
    return probabilities / np.maximum(probabilities.sum(axis=1, keepdims=True), 1e-12)
