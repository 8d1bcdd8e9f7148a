"""Labelled rows, checked: the form in which plan and generation see any data."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from linda.augmentation.gates import Example
from linda.augmentation.labels import LabelName, LabelReader, Labels, shown
from linda.errors import LindaError, checked_text

# The columns that say where a new row comes from.
RECORD = ("label_probs", "parent_a", "parent_b", "alpha", "method", "plan_seed")


class Table(Protocol):
    """Columns of equal length, rows counted from 0; they need not be in memory."""

    columns: list[str]

    def __len__(self) -> int: ...

    def fetch(self, column: str, rows: Sequence[int]) -> list[Any]:
        """Values of any rows, in the order asked for; missing values are None."""
        ...

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """The values of these columns, row by row."""
        ...


class ListTable:
    """Parallel lists."""

    def __init__(self, lists: Mapping[str, Sequence[Any]]) -> None:
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
        values = self._lists[column]
        return [values[row] for row in rows]

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        return zip(*(self._lists[column] for column in columns), strict=True)


@dataclass(frozen=True)
class Examples:
    """A table whose texts and labels are known to be good, but for the rows that were skipped (code −1)."""

    table: Table
    text: str
    pair: str | None
    label: str
    labels: Labels
    notes: tuple[str, ...]  # what the user should know: rows skipped, one class only

    @property
    def text_columns(self) -> list[str]:
        return [self.text] if self.pair is None else [self.text, self.pair]

    @property
    def skipped(self) -> int:
        return int((self.labels.codes < 0).sum())

    def fetch(self, rows: Sequence[int]) -> list[Example]:
        """The text of each row, or its two texts."""
        return list(zip(*(self.table.fetch(column, rows) for column in self.text_columns), strict=True))

    def scan(self) -> Iterator[tuple[int, Example]]:
        """Number and texts of every row that was not skipped."""
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
) -> Examples:
    """Reads every text and label once. The first bad row is an error that names it.

    skip_empty: leave out rows whose text is empty or missing, instead.
    classes: the label set, where the data may not show all of it.
    """
    text_columns = [text] if pair is None else [text, pair]
    _check_columns(table.columns, text_columns, label)
    reader = LabelReader(classes)
    for row, (*texts, value) in enumerate(table.scan([*text_columns, label])):
        if skip_empty and any(_is_empty(cell) for cell in texts):
            reader.skip()
            continue
        for column, cell in zip(text_columns, texts, strict=True):
            if _is_empty(cell):
                raise LindaError(
                    f"row {row}: {column!r} is empty; fill it in, or leave such rows out (skip_empty, --skip-empty)"
                )
            checked_text(cell, f"row {row}: {column!r}")
        reader.add(value, f"row {row}")
    labels = reader.labels(lambda rows: table.fetch(label, rows))
    return Examples(table, text, pair, label, labels, tuple(_notes(labels)))


def _check_columns(columns: Sequence[str], text_columns: Sequence[str], label: str) -> None:
    doubled = [name for name, count in Counter(columns).items() if count > 1]
    if doubled:
        raise LindaError(f"the column {doubled[0]!r} is there twice; rename one")
    for column in (*text_columns, label):
        if column not in columns:
            raise LindaError(f"there is no column {column!r}; the data has {shown(columns)}")
    wanted = [*text_columns, label]
    if len(set(wanted)) < len(wanted):
        raise LindaError(f"text, pair and label must be different columns; got {shown(wanted)}")
    taken = [column for column in RECORD if column in columns]
    if taken:
        raise LindaError(f"the data has a column {taken[0]!r} already, which the new rows need; drop or rename it")


def _notes(labels: Labels) -> Iterator[str]:
    skipped = int((labels.codes < 0).sum())
    if skipped:
        yield f"{skipped:,} rows without text are skipped"
    present = [name for name, count in labels.counts().items() if count]
    if len(present) == 1:
        yield f"all rows have the label {present[0]!r}: there is nothing to tell apart, in old rows or new"


def _is_empty(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())
