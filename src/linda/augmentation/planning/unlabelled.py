"""Unlabelled texts as partners of labelled rows. A teacher labels the new texts.

The unlabelled rows follow the rows of the table: number n is the first of them if the table has n rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from linda.augmentation.examples import Examples, Table
from linda.errors import LindaError, checked_text
from linda.files.tables import find_format, read_table
from linda.files.textio import LINE_FILES, open_text


def read_unlabelled(given: str | Path | Sequence[str], text: str, label: str) -> list[str]:
    """The unlabelled texts.

    Args:
        given: The texts; or a file: .txt with one text per line, or a table (CSV, TSV, JSON lines, Parquet).
        text: Text column of a table.
        label: Label column. A table with this column is rejected, because its rows are labelled.

    Returns:
        The texts; rows without text are left out.

    Example:
        read_unlabelled("reviews.txt", "text", "label")
    """
    if not isinstance(given, str | Path):
        texts, name = list(given), "unlabelled"
    else:
        texts, name = _read_file(given, text, label), str(given)
    texts = [value for value in texts if value is not None and value == value and str(value).strip()]
    if not texts:
        raise LindaError(f"{name}: there are no unlabelled texts; give at least one")
    return [checked_text(value, f"{name}: text {number}") for number, value in enumerate(texts)]


def _read_file(path: str | Path, text: str, label: str) -> list[Any]:
    if str(path).endswith(LINE_FILES):
        with open_text(path) as lines:
            return [line.strip() for line in lines]
    schema, batches = read_table(Path(path), find_format(path), [text])
    if label in schema.names:
        raise LindaError(
            f"{path} has the label column {label!r}, so its rows are labelled; "
            "add them to the input, or remove the column"
        )
    if text not in schema.names:
        raise LindaError(f"{path}: there is no column {text!r}; it has {', '.join(map(repr, schema.names))}")
    return [value for batch in batches for value in batch.column(schema.names.index(text)).to_pylist()]


def with_unlabelled(examples: Examples, texts: list[str]) -> Examples:
    """The rows, followed by unlabelled ones, which can only be partners."""
    codes = np.concatenate([examples.labels.codes, np.full(len(texts), -1, dtype=np.int32)])
    labels = replace(examples.labels, codes=codes)
    return replace(
        examples, table=_ExtendedTable(examples.table, examples.text, texts), labels=labels, unlabelled=len(texts)
    )


class _ExtendedTable:
    """A table, followed by rows that have a text and nothing else."""

    def __init__(self, table: Table, text: str, texts: list[str]) -> None:
        self.columns = table.columns
        self._table, self._text, self._texts = table, text, texts

    def __len__(self) -> int:
        return len(self._table) + len(self._texts)

    def fetch(self, column: str, rows: Sequence[int]) -> list[Any]:
        first = len(self._table)
        known = iter(self._table.fetch(column, [row for row in rows if row < first]))
        return [next(known) if row < first else self._value(column, row - first) for row in rows]

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        yield from self._table.scan(columns)
        for number in range(len(self._texts)):
            yield tuple(self._value(column, number) for column in columns)

    def _value(self, column: str, number: int) -> Any:
        return self._texts[number] if column == self._text else None
