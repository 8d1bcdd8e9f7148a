"""Data in memory, of the kinds people have it in: parallel lists, a pandas DataFrame, a `datasets.Dataset`.

Each is read as a `Table`, and joined with new rows to its own kind again.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from linda.augmentation.examples import Examples, ListTable, Table
from linda.augmentation.labels import LabelName
from linda.augmentation.records import original_columns
from linda.errors import LindaError

if TYPE_CHECKING:
    import datasets
    import pandas as pd


def is_a(data: Any, module: str, name: str) -> bool:
    """Whether data is of a library's class. A library that is not imported made no data, and is not imported here."""
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
    """All classes that the data's own type declares, whether or not the rows show them."""
    if is_a(data, "datasets", "Dataset"):
        names = getattr(data.features.get(label), "names", None)
        return None if names is None else range(len(names))
    return None


def joined(data: Any, examples: Examples, new: dict[str, list[Any]], only_new: bool) -> Any:
    """Originals and new rows as one, of the same kind as the data."""
    if is_a(data, "pandas", "DataFrame"):
        return _joined_frames(data, examples, new, only_new)
    if is_a(data, "datasets", "Dataset"):
        return _joined_datasets(data, examples, new, only_new)
    columns = new if only_new else joined_lists(data, examples, new)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def joined_lists(
    data: Mapping[str, Sequence[Any]], examples: Examples, new: dict[str, list[Any]]
) -> dict[str, list[Any]]:
    """Parallel lists; what new rows do not have is None."""
    rows = _kept(examples)
    originals = {name: [values[row] for row in rows] for name, values in data.items()}
    originals |= {examples.label: _hard_labels(examples)} | _original_columns(examples, rows, new)
    missing = [None] * len(new[examples.text])
    return {name: values + new.get(name, missing) for name, values in originals.items()}


# --- pandas ---------------------------------------------------------------------------------------------------


class FrameTable:
    """A pandas DataFrame; rows are counted by position, whatever its index."""

    def __init__(self, frame: "pd.DataFrame") -> None:
        self.columns = list(frame.columns)
        self._frame = frame
        self._lists: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self._frame)

    def fetch(self, column: str, rows: Sequence[int]) -> list[Any]:
        values = self._values(column)
        return [values[row] for row in rows]

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        return zip(*(self._values(column) for column in columns), strict=True)

    def _values(self, column: str) -> list[Any]:
        if column not in self._lists:
            series = self._frame[column].astype(object)
            self._lists[column] = series.where(series.notna(), None).tolist()
        return self._lists[column]


def _joined_frames(
    data: "pd.DataFrame", examples: Examples, new: dict[str, list[Any]], only_new: bool
) -> "pd.DataFrame":
    import pandas as pd

    def as_frame(columns: dict[str, list[Any]]) -> pd.DataFrame:
        return pd.DataFrame({name: pd.Series(values, dtype=types.get(name)) for name, values in columns.items()})

    types: dict[str, Any] = dict.fromkeys(("parent_a", "parent_b", "plan_seed"), "Int64")
    types |= {"alpha": "float64", "label_probs": "object", "method": "str", "weight": "float64"}
    types |= {column: data[column].dtype for column in examples.text_columns}
    if examples.labels.soft is None:
        types[examples.label] = data[examples.label].dtype
    result = as_frame(new)
    if not only_new:
        rows = _kept(examples)
        kept = data.iloc[rows].reset_index(drop=True)
        if examples.labels.soft is not None:
            kept[examples.label] = _hard_labels(examples)
        # Whole numbers and booleans of columns that new rows do not have must not turn into floats and objects.
        others = [column for column in data.columns if column not in new]
        kept = kept.astype({column: _nullable(data[column].dtype) for column in others})
        kept = pd.concat([kept, as_frame(_original_columns(examples, rows, new))], axis=1)
        nothing = {column: pd.Series([None] * len(result), dtype=kept[column].dtype) for column in others}
        result = pd.concat([kept, result.assign(**nothing)[kept.columns]], ignore_index=True)
    result.attrs["label_names"] = list(examples.labels.names)
    return result


def _nullable(dtype: Any) -> Any:
    kind = getattr(dtype, "kind", "O")
    is_numpy = isinstance(dtype, np.dtype)
    return {"i": "Int64", "u": "UInt64", "b": "boolean"}.get(kind, dtype) if is_numpy else dtype


# --- datasets -------------------------------------------------------------------------------------------------


class DatasetTable:
    """A `datasets.Dataset`, which reads from its own files as rows are asked for."""

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
    data: "datasets.Dataset", examples: Examples, new: dict[str, list[Any]], only_new: bool
) -> "datasets.Dataset":
    from datasets import Dataset, Features, List, Value, concatenate_datasets

    features = data.features.copy()
    if examples.labels.soft is not None:
        features[examples.label] = Value("int64" if isinstance(examples.labels.names[0], int) else "string")
    features |= dict.fromkeys(("parent_a", "parent_b", "plan_seed"), Value("int64"))
    features |= {"label_probs": List(Value("float64")), "alpha": Value("float64"), "method": Value("string")}
    if "weight" in new:
        features["weight"] = Value("float64")

    def as_dataset(columns: dict[str, list[Any]]) -> Dataset:
        return Dataset.from_dict(columns, features=Features({name: features[name] for name in columns}))

    if only_new:
        return as_dataset(new)
    rows = _kept(examples)
    kept = data.with_format(None)
    if len(rows) < len(data):
        kept = kept.select(rows.tolist())
    record = _original_columns(examples, rows, new)
    if examples.labels.soft is not None:
        kept = kept.remove_columns(examples.label)
        record[examples.label] = _hard_labels(examples)
    kept = concatenate_datasets([kept, as_dataset(record)], axis=1)
    missing = [None] * len(new[examples.text])
    fresh = as_dataset({name: new.get(name, missing) for name in kept.column_names})
    return concatenate_datasets([kept, fresh]).with_format(data.format["type"], **data.format["format_kwargs"])


# --- all of them ----------------------------------------------------------------------------------------------


def _original_columns(examples: Examples, rows: np.ndarray, new: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return original_columns(examples.labels, rows, weighted="weight" in new)


def _kept(examples: Examples) -> np.ndarray:
    return np.flatnonzero(examples.labels.codes >= 0)


def _hard_labels(examples: Examples) -> list[LabelName]:
    names = examples.labels.names
    return [names[code] for code in examples.labels.codes[_kept(examples)]]
