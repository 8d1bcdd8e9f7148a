"""The columns that say what a row is and where it comes from, for originals and for new rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from linda.examples import Examples
from linda.generation import NewRow
from linda.labels import Labels, rounded


def original_columns(labels: Labels, rows: np.ndarray) -> dict[str, list[Any]]:
    """What an original row gets beside its own columns: no parents, no ratio, its own label as a distribution."""
    nothing = [None] * len(rows)
    return {
        "label_probs": rounded(labels.distributions(rows)),
        "parent_a": nothing,
        "parent_b": nothing,
        "alpha": nothing,
        "method": ["original"] * len(rows),
        "plan_seed": nothing,
    }


def new_columns(examples: Examples, rows: Sequence[NewRow], method: str) -> dict[str, list[Any]]:
    """New rows: their texts, their likeliest label (of the originals' own type), and where they come from."""
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
    }
