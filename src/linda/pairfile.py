"""Pairs of texts from a file: TSV, CSV or JSON lines with the columns a and b, row by row."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from linda.checks import checked_ratio, checked_text
from linda.errors import LindaError
from linda.textio import MAX_LINE_BYTES, display_name, open_text


@dataclass(frozen=True)
class PairRow:
    """Two texts, and their ratio if the file has a column alpha."""

    a: str
    b: str
    alpha: float | None


# What a reader yields: the number of the line, and the row's values by column.
_Rows = Iterator[tuple[int, dict[str, Any]]]


def read_pairs(path: str | Path) -> Iterator[PairRow]:
    """The rows of a file (`-` is standard input; .gz and .xz are read too), one at a time.

    CSV and TSV name their columns in the first line; TSV knows no quotation marks. Further columns are passed
    over, empty lines as well.
    """
    name = display_name(path)
    with open_text(path) as lines:
        first = next(lines, "")
        reader = _reader(path, first)
        for number, values in reader(chain([first], lines), name):
            yield _pair_row(values, f"{name}, line {number}")


def _reader(path: str | Path, first_line: str) -> Callable[[Iterable[str], str], _Rows]:
    """By the file's ending, or, where that tells nothing, by its first line."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in {".gz", ".xz"}]
    by_suffix = {".tsv": _tsv_rows, ".csv": _csv_rows, ".jsonl": _json_rows, ".ndjson": _json_rows}
    if suffixes and suffixes[-1] in by_suffix:
        return by_suffix[suffixes[-1]]
    if first_line.lstrip().startswith("{"):
        return _json_rows
    return _tsv_rows if "\t" in first_line else _csv_rows


def _tsv_rows(lines: Iterable[str], name: str) -> _Rows:
    return _table_rows(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), name)


def _csv_rows(lines: Iterable[str], name: str) -> _Rows:
    return _table_rows(csv.reader(lines, strict=True), name)


def _table_rows(reader: Any, name: str) -> _Rows:
    csv.field_size_limit(MAX_LINE_BYTES)  # the module's own limit, 128 KB, would refuse a long text
    try:
        header: list[str] = next(reader, [])
        for column in ("a", "b"):
            if column not in header:
                found = ", ".join(map(repr, header)) or "none"
                raise LindaError(f"{name}: no column {column!r} in the first line (found {found}); name it there")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise LindaError(f"{name}, line {reader.line_num}: {len(cells)} columns, expected {len(header)}")
            yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise LindaError(f"{name}, line {reader.line_num}: {error}") from error


def _json_rows(lines: Iterable[str], name: str) -> _Rows:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise LindaError(f"{name}, line {number}: not JSON ({error})") from error
        if not isinstance(values, dict):
            raise LindaError(f'{name}, line {number}: not an object such as {{"a": "…", "b": "…"}}')
        yield number, values


def _pair_row(values: dict[str, Any], place: str) -> PairRow:
    for column in ("a", "b"):
        if column not in values:
            raise LindaError(f"{place}: no {column!r}; every row needs a and b")
    alpha = values.get("alpha")
    return PairRow(
        checked_text(values["a"], f"{place}: a"),
        checked_text(values["b"], f"{place}: b"),
        None if alpha is None or alpha == "" else checked_ratio(alpha, f"{place}: alpha"),
    )
