"""Labelled rows of a table, checked, and unlabelled texts after them: the input of all further steps."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from linda.errors import LindaError, checked_kind, checked_text
from linda.files.tables import find_format, read_table
from linda.files.textio import LINE_FILES, open_text
from linda.planning.labels import LabelName, LabelReader, Labels, MultiLabelReader, shown

# The texts of one row: one, or the two of a pair task.
Example = tuple[str, ...]

# The columns that are added to every row, in order. They record where a new row comes from.
RECORD: dict[str, pa.DataType] = {
    "label_probs": pa.list_(pa.float64()),
    "parent_a": pa.int64(),
    "parent_b": pa.int64(),
    "alpha": pa.float64(),
    "method": pa.string(),
    "plan_seed": pa.int64(),
}
# Added as well if new rows have a weight other than 1.
WEIGHT: dict[str, pa.DataType] = {"weight": pa.float64()}


class Table(Protocol):
    """Columns of equal length, with rows numbered from 0. They need not be in memory."""

    columns: list[str]

    def __len__(self) -> int: ...

    def fetch(self, column: str, rows: Sequence[int]) -> list[Any]:
        """Values of these rows, in the given order. Missing values are None."""
        ...

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """The values of these columns, row by row."""
        ...


class ListTable:
    """Parallel lists."""

    def __init__(self, lists: Mapping[str, Sequence[Any]]) -> None:
        for name, values in lists.items():
            checked_kind(values, f"the column {name!r}", (Sized,), "a list")
        lengths = {name: len(values) for name, values in lists.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise LindaError(f"the lists differ in length: {listed}")
        self.columns = list(lists)
        self._lists = lists
        self._length = next(iter(lengths.values()), 0)

    def __len__(self) -> int:
        return self._length

    def fetch(self, column: str, rows: Sequence[int]) -> list[Any]:
        values = self._values(column)
        return [values[row] for row in rows]

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        return zip(*map(self._values, columns), strict=True)

    def _values(self, column: str) -> Sequence[Any]:
        return self._lists[column]


@dataclass(frozen=True)
class Examples:
    """A table whose texts and labels are valid, except for skipped rows (label code −1)."""

    table: Table
    text_columns: list[str]  # one, or the two of a pair task
    label: str
    labels: Labels
    notes: tuple[str, ...]  # for the user: skipped rows, a single class
    unlabelled: int = 0  # rows at the end of the table that have no label and can only be partners

    @property
    def kept(self) -> np.ndarray:
        """Numbers of the rows that are not skipped."""
        return np.flatnonzero(self.labels.codes >= 0)

    @property
    def skipped(self) -> int:
        return len(self.labels.codes) - self.unlabelled - len(self.kept)

    def fetch(self, rows: Sequence[int]) -> list[Example]:
        return list(zip(*(self.table.fetch(column, rows) for column in self.text_columns), strict=True))

    def scan(self) -> Iterator[tuple[int, Example]]:
        """Number and texts of each row that is not skipped."""
        for row, example in enumerate(self.table.scan(self.text_columns)):
            if self.labels.codes[row] >= 0:
                yield row, example


def read_examples(
    table: Table,
    text: str = "text",
    label: str = "label",
    pair: str | None = None,
    *,
    skip_empty: bool = False,
    classes: Sequence[LabelName] | None = None,
    multi_label: bool = False,
    reserved: Sequence[str] = tuple(RECORD),
    row_numbers: Sequence[int] | None = None,
) -> Examples:
    """Read and check every text and label of a table.

    Args:
        table: The rows.
        text: Text column.
        label: Label column.
        pair: Second text column of a pair task.
        skip_empty: Leave out rows whose text is empty or missing, instead of raising an error.
        classes: All classes, if the data may not contain every one.
        multi_label: Rows have several labels: lists of class names, or vectors with one value per class.
        reserved: Names of columns that will be added, and that the table must not have.
        row_numbers: Numbers of the rows in messages, if this is a part of a larger table. By default from 0.

    Returns:
        The examples.

    Raises:
        LindaError: The first bad row, by its number.

    Example:
        read_examples(ListTable({"text": ["a cat", "a dog"], "label": [0, 1]}))
    """
    text_columns = [text] if pair is None else [text, pair]
    _check_columns(table.columns, text_columns, label, reserved)
    reader = MultiLabelReader(classes) if multi_label else LabelReader(classes)
    numbers = range(len(table)) if row_numbers is None else row_numbers
    for row, (*texts, value) in zip(numbers, table.scan([*text_columns, label]), strict=True):
        if skip_empty and any(_is_empty(cell) for cell in texts):
            reader.skip()
            continue
        for column, cell in zip(text_columns, texts, strict=True):
            if _is_empty(cell):
                raise LindaError(
                    f"row {row}: {column!r} is empty; fill it in, or skip such rows (skip_empty, --skip-empty)"
                )
            checked_text(cell, f"row {row}: {column!r}")
        reader.add(value, f"row {row}")
    labels = reader.labels(lambda rows: table.fetch(label, rows))
    notes = table_notes(int((labels.codes < 0).sum()), labels.counts())
    return Examples(table, text_columns, label, labels, tuple(notes))


def _check_columns(columns: Sequence[str], text_columns: Sequence[str], label: str, reserved: Sequence[str]) -> None:
    repeated = [name for name, count in Counter(columns).items() if count > 1]
    if repeated:
        raise LindaError(f"the column {repeated[0]!r} occurs twice; rename one")
    used = [*text_columns, label]
    for column in used:
        if column not in columns:
            raise LindaError(f"there is no column {column!r}; the data has {shown(columns)}")
    if len(set(used)) < len(used):
        raise LindaError(f"text, pair and label must be different columns; got {shown(used)}")
    taken = [column for column in reserved if column in columns]
    if taken:
        raise LindaError(f"the data already has a column {taken[0]!r}, which is added to new rows; drop or rename it")


def table_notes(skipped: int, counts: Mapping[LabelName, int]) -> Iterator[str]:
    """What the user should know about a table: rows that were skipped, a single class."""
    if skipped:
        yield f"skipped {skipped:,} rows without text"
    present = [name for name, count in counts.items() if count]
    if len(present) == 1:
        yield f"all rows have the label {present[0]!r}; a classifier needs at least two classes"


def _is_empty(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


# --- unlabelled texts -----------------------------------------------------------------------------------------


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
    texts = [value for value in texts if not _is_empty(value)]
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
    """The rows, followed by unlabelled ones, which can only be partners: number n is the first of them after n rows."""
    codes = np.concatenate([examples.labels.codes, np.full(len(texts), -1, dtype=np.int32)])
    labels = replace(examples.labels, codes=codes)
    table = _ExtendedTable(examples.table, examples.text_columns[0], texts)
    return replace(examples, table=table, labels=labels, unlabelled=len(texts))


class _ExtendedTable:
    """A table, followed by rows that have a text and nothing else."""

    def __init__(self, table: Table, text: str, texts: list[str]) -> None:
        self.columns = table.columns
        self._table = table
        self._more = ListTable({name: texts if name == text else [None] * len(texts) for name in table.columns})

    def __len__(self) -> int:
        return len(self._table) + len(self._more)

    def fetch(self, column: str, rows: Sequence[int]) -> list[Any]:
        first = len(self._table)
        known = iter(self._table.fetch(column, [row for row in rows if row < first]))
        more = iter(self._more.fetch(column, [row - first for row in rows if row >= first]))
        return [next(known if row < first else more) for row in rows]

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        return chain(self._table.scan(columns), self._more.scan(columns))
