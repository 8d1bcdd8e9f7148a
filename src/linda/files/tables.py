"""Tables in files: CSV, TSV, JSON lines and Parquet, read and written block by block.

A text file is read twice: first to infer the type of every column from all rows, then for the rows. Values survive a
round trip: a CSV column is read as numbers only if Python would write them in the same way, and a JSON column of mixed
types is kept as JSON text.
"""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from linda.errors import LindaError, reason
from linda.files.paths import check_regular_file
from linda.files.rowfile import read_rows
from linda.files.textio import atomic_path, atomic_writer, display_name, open_text

FORMATS = ("csv", "tsv", "jsonl", "parquet")

BLOCK = 1024  # rows

# Maximum size of a row group of Parquet.
_GROUP_ROWS = 2**16
_GROUP_BYTES = 2**24

_IS_JSON = {b"linda": b"json"}  # marks a column whose values are JSON texts


def find_format(path: str | Path, given: str | None = None) -> str:
    """Infer the format from the file extension; `-` is read as JSON lines."""
    if given is not None:
        return given
    if str(path) == "-":
        return "jsonl"
    suffixes = [suffix.lower().removeprefix(".") for suffix in Path(path).suffixes]
    is_compressed = suffixes[-1:] in (["gz"], ["xz"])
    name = suffixes[-2:-1] if is_compressed else suffixes[-1:]
    if name == ["ndjson"]:
        return "jsonl"
    if name and name[0] in FORMATS and not (is_compressed and name[0] == "parquet"):
        return name[0]
    raise LindaError(f"{path}: unknown file format; use a name that ends in .csv, .tsv, .jsonl (or .gz, .xz), .parquet")


# --- reading --------------------------------------------------------------------------------------------------


def read_table(
    path: Path, file_format: str, texts: Sequence[str], name: str | None = None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the columns of a file, and its rows in blocks.

    Args:
        path: A regular file.
        file_format: One of csv, tsv, jsonl or parquet.
        texts: Columns to read as text, even if all values look like numbers.
        name: Name of the file in messages.
    """
    name = name or display_name(path)
    if file_format == "parquet":
        return _read_parquet(path, name)
    check_regular_file(path)  # because it is read twice

    def rows() -> Iterator[dict[str, Any]]:
        with open_text(path) as lines:
            for _, values in read_rows(lines, file_format, name):
                yield values

    schema = _json_schema(rows()) if file_format == "jsonl" else _csv_schema(rows(), texts)
    if not schema.names:
        raise LindaError(f"{name} has no rows; give at least two")
    return schema, (_as_batch(block, schema) for block in _blocks(rows()))


def _read_parquet(path: Path, name: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    check_regular_file(path)
    with _parquet_errors(name):
        file = pq.ParquetFile(path, pre_buffer=False)
        # Dictionaries may differ between blocks, and pandas or datasets metadata may not match the converted columns.
        schema = pa.schema([pa.field(field.name, _plain_type(field.type)) for field in file.schema_arrow])
        count = file.metadata.num_rows
    if not count:
        raise LindaError(f"{name} has no rows; give at least two")

    def batches() -> Iterator[pa.RecordBatch]:
        with _parquet_errors(name):
            for batch in file.iter_batches(batch_size=BLOCK):
                columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
                plain = pa.RecordBatch.from_arrays(columns, schema=schema)
                plain.validate(full=True)  # reports invalid UTF-8 now, not when a value is accessed
                yield plain

    return schema, batches()


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Replace dictionary and view types, which the output formats do not have."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    return kind


@contextmanager
def _parquet_errors(name: str) -> Iterator[None]:
    try:
        yield
    except LindaError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise LindaError(f"{name} is damaged, or not a Parquet file ({reason(error)}); write it again") from error


def _blocks(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while block := list(islice(rows, BLOCK)):
        yield block


def _as_batch(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([_as_stored(row.get(field.name), field) for row in rows], field.type) for field in schema],
        schema=schema,
    )


def _as_stored(value: Any, field: pa.Field) -> Any:
    if is_json(field):
        return None if value is None else json.dumps(value)
    if isinstance(value, str) and not pa.types.is_string(field.type):
        return _FROM_TEXT[field.type](value) if value else None
    return value


# --- types of columns -----------------------------------------------------------------------------------------


def is_json(field: pa.Field) -> bool:
    return bool(field.metadata) and field.metadata.get(b"linda") == b"json"


def column_values(batch: pa.RecordBatch, name: str) -> list[Any]:
    """Return a column as Python values; columns of mixed types are parsed from JSON."""
    values: list[Any] = batch.column(name).to_pylist()
    if is_json(batch.schema.field(name)):
        return [None if value is None else json.loads(value) for value in values]
    return values


_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")

# Conversion of CSV cells to values.
_FROM_TEXT: dict[pa.DataType, Callable[[str], Any]] = {
    pa.int64(): int,
    pa.float64(): float,
    pa.bool_(): lambda cell: cell == "True",
}


def _round_trips(cell: str, kind: pa.DataType) -> bool:
    """Whether the converted value is written as the same cell: "007" and "1.50" stay text."""
    if kind == pa.int64():
        return _INTEGER.fullmatch(cell) is not None
    if kind == pa.bool_():
        return cell in ("True", "False")
    try:
        return repr(float(cell)) == cell
    except ValueError:
        return False


def _csv_schema(rows: Iterator[dict[str, Any]], texts: Sequence[str]) -> pa.Schema:
    possible: dict[str, list[pa.DataType]] = {}
    filled: set[str] = set()
    for row in rows:
        for column, cell in row.items():
            kinds = possible.setdefault(column, [] if column in texts else list(_FROM_TEXT))
            if cell and kinds:
                filled.add(column)
                possible[column] = [kind for kind in kinds if _round_trips(cell, kind)]
    return pa.schema(
        (column, kinds[0] if kinds and column in filled else pa.string()) for column, kinds in possible.items()
    )


def _json_schema(rows: Iterator[dict[str, Any]]) -> pa.Schema:
    types: dict[str, pa.DataType | None] = {}  # None: mixed types
    for block in _blocks(rows):
        for column in dict.fromkeys(key for row in block for key in row):
            found = _type_of([row.get(column) for row in block])
            types[column] = _common_type(types.get(column, pa.null()), found)
    fields = []
    for column, kind in types.items():
        if kind is None:
            fields.append(pa.field(column, pa.string(), metadata=_IS_JSON))
        else:
            fields.append(pa.field(column, pa.string() if pa.types.is_null(kind) else kind))
    return pa.schema(fields)


def _type_of(values: list[Any]) -> pa.DataType | None:
    try:
        kind = pa.array(values).type
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None
    # Arrow would give each object the keys of all objects in the column.
    return None if "struct" in str(kind) else kind


def _common_type(first: pa.DataType | None, second: pa.DataType | None) -> pa.DataType | None:
    if first is None or second is None:
        return None
    try:
        fields = [pa.schema([("", kind)]) for kind in (first, second)]
        common = pa.unify_schemas(fields, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return None
    return common if common in (first, second) else None


# --- writing --------------------------------------------------------------------------------------------------

Write = Callable[[pa.RecordBatch], None]


@contextmanager
def open_table(path: str | Path, file_format: str, schema: pa.Schema, scratch: Path | None = None) -> Iterator[Write]:
    """Yield a function that writes blocks to a file, which appears under its name only when complete.

    Args:
        path: The file, or `-` for standard output.
        file_format: One of csv, tsv, jsonl or parquet.
        schema: Schema of all blocks.
        scratch: Folder for the temporary file, as in `atomic_path`.
    """
    if str(path) == "-" and file_format == "parquet":
        with _row_groups(sys.stdout.buffer, schema) as write:
            yield write
    elif str(path) == "-":
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        yield _text_writer(sys.stdout, file_format, schema)
        sys.stdout.flush()
    elif file_format == "parquet":
        with atomic_path(path, scratch) as part, _row_groups(part, schema) as write:
            yield write
    else:
        with atomic_writer(path, scratch) as file:
            yield _text_writer(file, file_format, schema)


@contextmanager
def _row_groups(target: Any, schema: pa.Schema) -> Iterator[Write]:
    """Yield a function that writes blocks to Parquet, many blocks per row group.

    The writer keeps about 10 kB of metadata per row group until the file is closed, so with one group per block the
    memory would grow with the number of rows.
    """
    with pq.ParquetWriter(target, schema) as parquet:
        waiting: list[pa.RecordBatch] = []

        def write_group() -> None:
            if waiting:
                parquet.write_table(pa.Table.from_batches(waiting, schema))
                waiting.clear()

        def write(batch: pa.RecordBatch) -> None:
            waiting.append(batch)
            if sum(map(len, waiting)) >= _GROUP_ROWS or sum(batch.nbytes for batch in waiting) >= _GROUP_BYTES:
                write_group()

        yield write
        write_group()


def check_writable(batch: pa.RecordBatch, file_format: str, row_numbers: Sequence[int]) -> None:
    """Raise an error for values that the format cannot store, before hours of work.

    TSV cannot store tabs and line breaks; no text format can store dates that Python cannot represent.
    """
    if file_format == "parquet":
        return
    if file_format != "tsv":
        _as_rows(batch)
        return
    for number, row in zip(row_numbers, _as_rows(batch), strict=True):
        for column, value in row.items():
            if isinstance(value, str) and re.search("[\t\r\n]", value):
                raise LindaError(
                    f"row {number}: {column!r} has a tab or a line break, which TSV cannot store; use another format"
                )


def _as_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_nested(column.type) or pa.types.is_temporal(column.type):
            try:
                column.to_pylist()
            except (ValueError, OverflowError, KeyError, pa.ArrowException, ImportError) as error:
                raise LindaError(
                    f"the column {name!r} contains a value that cannot be written as text ({reason(error)}); "
                    "drop the column, or write Parquet"
                ) from error
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def _text_writer(file: TextIO, file_format: str, schema: pa.Schema) -> Write:
    if file_format == "jsonl":
        json_columns = [field.name for field in schema if is_json(field)]

        def write_json(batch: pa.RecordBatch) -> None:
            for row in _as_rows(batch):
                row |= {column: json.loads(row[column]) for column in json_columns if row[column] is not None}
                file.write(_json_line(row))

        return write_json

    write_line = partial(_write_csv_line if file_format == "csv" else _write_tsv_line, file)
    write_line(schema.names)

    def write_cells(batch: pa.RecordBatch) -> None:
        for row in _as_rows(batch):
            write_line([_as_cell(value) for value in row.values()])

    return write_cells


def _write_csv_line(file: TextIO, cells: list[str]) -> None:
    # Python's csv writer does not quote a lone carriage return, which its reader then rejects.
    quoting: Literal[0, 1] = csv.QUOTE_ALL if any("\r" in cell for cell in cells) else csv.QUOTE_MINIMAL
    csv.writer(file, lineterminator="\n", quoting=quoting).writerow(cells)


def _write_tsv_line(file: TextIO, cells: list[str]) -> None:
    # Originals with tabs were rejected by `check_writable`; in new texts they become spaces.
    file.write("\t".join(re.sub("[\t\r\n]+", " ", cell) for cell in cells) + "\n")


def _json_line(row: dict[str, Any]) -> str:
    line = json.dumps(row, ensure_ascii=False, default=str)
    try:
        line.encode()
    except UnicodeEncodeError:  # a lone surrogate, which must be escaped
        line = json.dumps(row, default=str)
    return line + "\n"


def _as_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
