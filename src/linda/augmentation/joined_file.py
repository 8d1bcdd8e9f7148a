"""Originals and new rows as one file."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from linda.augmentation.examples import Examples
from linda.augmentation.generation import NewRow
from linda.augmentation.records import new_columns, original_columns
from linda.errors import LindaError
from linda.files.jsonfile import read_json_object
from linda.files.spool import Spool
from linda.files.tables import BLOCK, open_table
from linda.files.textio import atomic_writer, check_other_file, checked_target

_RECORD_TYPES = {
    "label_probs": pa.list_(pa.float64()),
    "parent_a": pa.int64(),
    "parent_b": pa.int64(),
    "alpha": pa.float64(),
    "method": pa.string(),
    "plan_seed": pa.int64(),
}


def write_joined(
    output: str | Path,
    file_format: str,
    spool: Spool,
    examples: Examples,
    rows: Iterable[NewRow],
    *,
    method: str,
    weight: float,
    only_new: bool,
    scratch: Path | None = None,
) -> None:
    """The originals with all their columns, then the new rows. The names of the labels go with them: into the metadata
    of Parquet, else into `OUT.labels.json`.

    scratch: the folder that holds the file until it is whole.
    """
    schema = _schema(spool, examples, only_new, weighted=weight != 1)
    if str(output) != "-" and file_format != "parquet":
        with atomic_writer(_labels_file(output)) as file:
            names = {"label": examples.label, "label_names": examples.labels.names}
            file.write(json.dumps(names, ensure_ascii=False) + "\n")
    with open_table(output, file_format, schema, scratch) as write:
        if not only_new:
            for batch in _originals(spool, examples, schema, weighted=weight != 1):
                write(batch)
        rest = iter(rows)
        while block := list(islice(rest, BLOCK)):
            write(_as_batch(new_columns(examples, block, method, weight), schema))


def check_labels_file(source: str | Path, output: str | Path) -> None:
    """The file with the names of the labels may replace an earlier one, and nothing else."""
    path = _labels_file(output)
    check_other_file(source, path)
    if not checked_target(path).exists():
        return
    try:
        is_ours = set(read_json_object(path)) == {"label", "label_names"}
    except LindaError:
        is_ours = False
    if not is_ours:
        raise LindaError(f"{path} is there and holds no names of labels; move it, or give another --output")


def _labels_file(output: str | Path) -> Path:
    return Path(f"{output}.labels.json")


def _schema(spool: Spool, examples: Examples, only_new: bool, *, weighted: bool) -> pa.Schema:
    own: list[pa.Field] = list(spool.schema)
    if only_new:
        own = [field for field in own if field.name in (*examples.text_columns, examples.label)]
    if examples.labels.soft is not None:
        kind = pa.array(examples.labels.names).type
        own = [pa.field(field.name, kind) if field.name == examples.label else field for field in own]
    names = json.dumps(examples.labels.names, ensure_ascii=False)
    weight = [("weight", pa.float64())] if weighted else []
    return pa.schema([*own, *_RECORD_TYPES.items(), *weight], metadata={"label_names": names})


def _originals(spool: Spool, examples: Examples, schema: pa.Schema, *, weighted: bool) -> Iterator[pa.RecordBatch]:
    labels, start = examples.labels, 0
    for batch in spool.batches():
        rows = start + np.flatnonzero(labels.codes[start : start + len(batch)] >= 0)
        kept = batch.take(pa.array(rows - start))
        columns: dict[str, Any] = dict(zip(kept.schema.names, kept.columns, strict=True))
        columns |= original_columns(labels, rows, weighted=weighted)
        if labels.soft is not None:
            columns[examples.label] = [labels.names[code] for code in labels.codes[rows]]
        yield _as_batch(columns, schema)
        start += len(batch)


def _as_batch(columns: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Columns that are not there (new rows have none of the originals' others) are empty."""
    nothing = [None] * len(columns["method"])
    arrays = []
    for field in schema:
        values = columns.get(field.name, nothing)
        arrays.append(values if isinstance(values, pa.Array) else pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
