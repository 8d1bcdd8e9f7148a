"""The columns that say what a row is and where it comes from, for originals and for new rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from linda.augmentation.examples import Examples
from linda.augmentation.generation import NewRow
from linda.augmentation.labels import Labels, rounded


def original_columns(labels: Labels, rows: np.ndarray, *, weighted: bool) -> dict[str, list[Any]]:
    """What an original row gets beside its own columns: no parents, no ratio, its own label as a distribution.

    weighted: whether new rows have a weight. An original's is 1.
    """
    nothing = [None] * len(rows)
    weight = {"weight": [1.0] * len(rows)} if weighted else {}
    return {
        "label_probs": rounded(labels.distributions(rows)),
        "parent_a": nothing,
        "parent_b": nothing,
        "alpha": nothing,
        "method": ["original"] * len(rows),
        "plan_seed": nothing,
        **weight,
    }


def new_columns(examples: Examples, rows: Sequence[NewRow], method: str, weight: float) -> dict[str, list[Any]]:
    """New rows: their texts, their likeliest label (of the originals' own type), and where they come from.

    weight: what a new row counts beside an original; 1 needs no column.
    """
    names = examples.labels.names
    texts = {column: [row.example[number] for row in rows] for number, column in enumerate(examples.text_columns)}
    return {
        **texts,
        examples.label: [names[int(np.argmax(row.label_probs))] for row in rows],
        "label_probs": [row.label_probs for row in rows],
        "parent_a": [row.parent_a for row in rows],
        "parent_b": [row.parent_b for row in rows],
        "alpha": [row.alpha for row in rows],
        "method": [method] * len(rows),
        "plan_seed": [row.plan_seed for row in rows],
        **({} if weight == 1 else {"weight": [weight] * len(rows)}),
    }
