"""Originals and new rows as one table: parallel lists, a pandas DataFrame, a `datasets.Dataset`, or Arrow batches.

Data in memory is read as a `Table`, and the result has the type of the input.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from linda.augmentation.settings import AugmentationSettings
from linda.errors import LindaError
from linda.files.spool import Spool
from linda.files.tables import BLOCK
from linda.planning.examples import Example, Examples, ListTable, Table
from linda.planning.labels import LabelName, rounded

if TYPE_CHECKING:
    import datasets
    import pandas as pd

Columns = dict[str, list[Any]]


class NewRow(NamedTuple):
    """A new row: its texts, its label and its origin. The names of the fields are those of `RECORD`."""

    example: Example
    label_probs: list[float]
    parent_a: int
    parent_b: int | None  # None, like alpha, if the method does not mix
    alpha: float | None
    plan_seed: int


def new_columns(
    examples: Examples, rows: Sequence[NewRow], settings: AugmentationSettings, numbers: Sequence[int] | None = None
) -> Columns:
    """The columns of new rows: texts, most likely label (of the same type as in the data) and record.

    `numbers` are those of the originals, for the parents, if they are a part of a larger table. By default from 0.
    """
    columns: Columns = {}
    for number, column in enumerate(examples.text_columns):
        columns[column] = [row.example[number] for row in rows]
    columns[examples.label] = [examples.labels.column_value(row.label_probs) for row in rows]
    constant = {"method": settings.method_name, "weight": settings.weight}
    for name in settings.added_columns:
        columns[name] = [constant[name] if name in constant else getattr(row, name) for row in rows]
    if numbers is not None:
        for parent in ("parent_a", "parent_b"):
            # Unlabelled partners follow the rows of the table, and keep their numbers.
            columns[parent] = [row if row is None or row >= len(numbers) else numbers[row] for row in columns[parent]]
    return columns


def _original_columns(examples: Examples, rows: np.ndarray, settings: AugmentationSettings) -> Columns:
    """The columns that originals get in addition to their own: no parents, and their label as a distribution."""
    constant = {"method": "original", "weight": 1.0}
    columns: Columns = {name: [constant.get(name)] * len(rows) for name in settings.added_columns}
    columns["label_probs"] = rounded(examples.labels.distributions(rows))
    if examples.labels.soft is not None:
        columns[examples.label] = examples.labels.most_likely(rows)
    return columns


# --- data in memory -------------------------------------------------------------------------------------------


def is_a(data: Any, module: str, name: str) -> bool:
    """Whether data is an instance of a library's class, without importing the library."""
    return module in sys.modules and isinstance(data, getattr(sys.modules[module], name))


def as_table(data: Any) -> Table:
    if is_a(data, "pandas", "DataFrame"):
        return FrameTable(data)
    if is_a(data, "datasets", "Dataset"):
        return DatasetTable(data)
    if isinstance(data, Mapping):
        return ListTable(data)
    raise LindaError(
        f"data is a {type(data).__name__}; give a pandas DataFrame, a datasets.Dataset or DatasetDict, or parallel "
        'lists as {"text": [...], "label": [...]}'
    )


def known_classes(data: Any, label: str) -> Sequence[LabelName] | None:
    """All classes that the data's type declares, including those without rows."""
    names = getattr(data.features.get(label), "names", None) if is_a(data, "datasets", "Dataset") else None
    return None if names is None else range(len(names))


def joined(data: Any, examples: Examples, new: Columns, settings: AugmentationSettings) -> Any:
    """Originals and new rows as one table of the same type as the data."""
    if is_a(data, "pandas", "DataFrame"):
        return _joined_frames(data, examples, new, settings)
    if is_a(data, "datasets", "Dataset"):
        return _joined_datasets(data, examples, new, settings)
    columns = joined_lists(data, examples, new, settings)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def joined_lists(
    data: Mapping[str, Sequence[Any]], examples: Examples, new: Columns, settings: AugmentationSettings
) -> Columns:
    """Parallel lists; columns that new rows lack are None there."""
    if settings.only_new:
        return new
    originals = {name: [values[row] for row in examples.kept] for name, values in data.items()}
    originals |= {examples.label: examples.labels.most_likely(examples.kept)}
    originals |= _original_columns(examples, examples.kept, settings)
    missing = [None] * len(new[examples.label])
    return {name: values + new.get(name, missing) for name, values in originals.items()}


class FrameTable(ListTable):
    """A pandas DataFrame. Rows are numbered by position, whatever the index."""

    def __init__(self, frame: "pd.DataFrame") -> None:
        self.columns, self._length = list(frame.columns), len(frame)
        self._frame = frame
        self._converted: Columns = {}

    def _values(self, column: str) -> list[Any]:
        if column not in self._converted:
            series = self._frame[column].astype(object)
            self._converted[column] = series.where(series.notna(), None).tolist()
        return self._converted[column]


_PANDAS_TYPES = {pa.int64(): "Int64", pa.float64(): "float64", pa.string(): "str"}


def _joined_frames(
    data: "pd.DataFrame", examples: Examples, new: Columns, settings: AugmentationSettings
) -> "pd.DataFrame":
    import pandas as pd

    def as_frame(columns: Columns) -> pd.DataFrame:
        return pd.DataFrame({name: pd.Series(values, dtype=types.get(name)) for name, values in columns.items()})

    types: dict[str, Any] = {name: _PANDAS_TYPES.get(kind, "object") for name, kind in settings.added_columns.items()}
    types |= {column: data[column].dtype for column in examples.text_columns}
    if examples.labels.soft is None:
        types[examples.label] = data[examples.label].dtype
    result = as_frame(new)
    if not settings.only_new:
        record = as_frame(_original_columns(examples, examples.kept, settings))
        kept = data.iloc[examples.kept].reset_index(drop=True)
        if examples.label in record:
            kept[examples.label] = record.pop(examples.label)
        # Integers and booleans of columns that new rows lack must not become floats and objects.
        others = [column for column in data.columns if column not in new]
        kept = kept.astype({column: _nullable(data[column].dtype) for column in others})
        kept = pd.concat([kept, record], axis=1)
        nothing = {column: pd.Series([None] * len(result), dtype=kept[column].dtype) for column in others}
        result = pd.concat([kept, result.assign(**nothing)[kept.columns]], ignore_index=True)
    result.attrs["label_names"] = list(examples.labels.names)
    return result


def _nullable(dtype: Any) -> Any:
    kind = getattr(dtype, "kind", "O")
    is_numpy = isinstance(dtype, np.dtype)
    return {"i": "Int64", "u": "UInt64", "b": "boolean"}.get(kind, dtype) if is_numpy else dtype


class DatasetTable:
    """A `datasets.Dataset`, read from its files on demand."""

    def __init__(self, data: "datasets.Dataset") -> None:
        self.columns = list(data.column_names)
        self._data = data.with_format(None)

    def __len__(self) -> int:
        return len(self._data)

    def fetch(self, column: str, rows: Sequence[int]) -> list[Any]:
        return list(self._data.select_columns([column])[list(rows)][column])

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        for batch in self._data.select_columns(list(columns)).iter(batch_size=1000):
            yield from zip(*(batch[column] for column in columns), strict=True)


def _joined_datasets(
    data: "datasets.Dataset", examples: Examples, new: Columns, settings: AugmentationSettings
) -> "datasets.Dataset":
    from datasets import Dataset, Features, concatenate_datasets

    types = dict(settings.added_columns)
    if examples.labels.soft is not None:
        types[examples.label] = _label_type(examples)
    features = data.features | Features.from_arrow_schema(pa.schema(types))

    def as_dataset(columns: Columns) -> Dataset:
        return Dataset.from_dict(columns, features=Features({name: features[name] for name in columns}))

    if settings.only_new:
        return as_dataset(new)
    kept = data.with_format(None)
    if examples.skipped:
        kept = kept.select(examples.kept.tolist())
    added = _original_columns(examples, examples.kept, settings)
    kept = kept.remove_columns([name for name in added if name in kept.column_names])
    kept = concatenate_datasets([kept, as_dataset(added)], axis=1)
    missing = [None] * len(new[examples.label])
    fresh = as_dataset({name: new.get(name, missing) for name in kept.column_names})
    return concatenate_datasets([kept, fresh]).with_format(data.format["type"], **data.format["format_kwargs"])


def _label_type(examples: Examples) -> pa.DataType:
    return pa.array(examples.labels.names).type


# --- files ----------------------------------------------------------------------------------------------------


def joined_schema(spool: Spool, examples: Examples, settings: AugmentationSettings) -> pa.Schema:
    """The columns of the output. The class names that `label_probs` refers to are in its metadata."""
    own: list[pa.Field] = list(spool.schema)
    if settings.only_new:
        own = [field for field in own if field.name in (*examples.text_columns, examples.label)]
    if examples.labels.soft is not None:
        label = pa.field(examples.label, _label_type(examples))
        own = [label if field.name == examples.label else field for field in own]
    names = json.dumps(examples.labels.names, ensure_ascii=False)
    return pa.schema([*own, *settings.added_columns.items()], metadata={"label_names": names})


def joined_batches(
    spool: Spool,
    examples: Examples,
    rows: Iterable[NewRow],
    settings: AugmentationSettings,
    schema: pa.Schema,
    row_numbers: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The originals with all their columns, then the new rows.

    Args:
        spool: The originals.
        examples: The same rows, checked.
        rows: The new rows.
        settings: Say whether originals are included, and the weight of new rows.
        schema: Result of `joined_schema`.
        row_numbers: Numbers of the originals in the table that they are a block of. By default from 0.

    Returns:
        Batches of at most `linda.files.tables.BLOCK` rows.

    Example:
        schema = joined_schema(spool, examples, settings)
        for batch in joined_batches(spool, examples, rows, settings, schema):
            write(batch)
    """
    start = 0
    for batch in () if settings.only_new else spool.batches():
        numbers = start + np.flatnonzero(examples.labels.codes[start : start + len(batch)] >= 0)
        kept = batch.take(pa.array(numbers - start))
        columns: dict[str, Any] = dict(zip(kept.schema.names, kept.columns, strict=True))
        yield _as_batch(columns | _original_columns(examples, numbers, settings), schema)
        start += len(batch)
    rest = iter(rows)
    while block := list(islice(rest, BLOCK)):
        yield _as_batch(new_columns(examples, block, settings, row_numbers), schema)


def _as_batch(columns: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Columns that are not given are empty."""
    nothing = [None] * len(columns["method"])
    arrays = []
    for field in schema:
        values = columns.get(field.name, nothing)
        arrays.append(values if isinstance(values, pa.Array) else pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
