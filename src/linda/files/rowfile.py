"""Rows with named columns from text files, one at a time: CSV, TSV and JSON lines."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from linda.errors import LindaError, reason
from linda.files.textio import MAX_LINE_BYTES

# The number of the last line of a row, and its values by column.
NumberedRow = tuple[int, dict[str, Any]]


def read_rows(lines: Iterable[str], file_format: str, name: str, needed: Sequence[str] = ()) -> Iterator[NumberedRow]:
    """Yield rows with the number of their last line.

    CSV and TSV have column names in the first line; TSV has no quoting. Empty lines are skipped.

    Args:
        lines: The lines of the file.
        file_format: One of csv, tsv or jsonl.
        name: The name of the file in messages.
        needed: Required columns.
    """
    if file_format == "jsonl":
        return _json_rows(lines, name, needed)
    if file_format == "tsv":
        return _separated_rows(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), name, needed)
    return _separated_rows(csv.reader(lines, strict=True), name, needed)


def _separated_rows(reader: Any, name: str, needed: Sequence[str]) -> Iterator[NumberedRow]:
    csv.field_size_limit(MAX_LINE_BYTES)  # the default limit of 128 KB would reject long texts
    row = 0
    try:
        header: list[str] = next(reader, [])
        _check_header(header, name, needed)
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                place = f"{name}, line {reader.line_num} (row {row})"
                raise LindaError(f"{place}: wrong number of columns (found {len(cells)}, expected {len(header)})")
            yield reader.line_num, dict(zip(header, cells, strict=True))
            row += 1
    except csv.Error as error:
        raise LindaError(f"{name}, line {reader.line_num} (row {row}): {error}") from error


def _check_header(header: list[str], name: str, needed: Sequence[str]) -> None:
    if not header:
        raise LindaError(f"{name} is empty; its first line must name the columns")
    found = ", ".join(map(repr, header))
    for column in needed:
        if column not in header:
            raise LindaError(f"{name}: no column {column!r} in the first line (found {found}); name it there")
    doubled = [column for column in header if header.count(column) > 1]
    if doubled:
        raise LindaError(f"{name}: the column {doubled[0]!r} occurs twice; rename one of them")


def _json_rows(lines: Iterable[str], name: str, needed: Sequence[str]) -> Iterator[NumberedRow]:
    row = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{name}, line {number} (row {row})"
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise LindaError(f"{place}: not valid JSON ({reason(error)}); give one object per line") from error
        if not isinstance(values, dict):
            example = ", ".join(f'"{column}": …' for column in needed or ("text", "label"))
            raise LindaError(f"{place}: not an object such as {{{example}}}")
        for column in values:
            _check_name(column, place)
        for column in needed:
            if column not in values:
                raise LindaError(f"{place}: no {column!r}; every row needs {', '.join(needed)}")
        yield number, values
        row += 1


def _check_name(column: str, place: str) -> None:
    try:
        column.encode()
    except UnicodeEncodeError:
        raise LindaError(f"{place}: the column name {column!r} contains a lone surrogate; give valid Unicode") from None
