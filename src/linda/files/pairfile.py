"""Pairs of texts from a file: TSV, CSV or JSON lines with the columns a and b, row by row."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from linda.errors import checked_ratio, checked_text
from linda.files.rowfile import read_rows
from linda.files.textio import display_name, open_text


@dataclass(frozen=True)
class PairLine:
    """Two texts, and their ratio if the file has a column alpha."""

    a: str
    b: str
    alpha: float | None


def read_pairs(path: str | Path) -> Iterator[PairLine]:
    """Yield the rows of a file (also .gz and .xz; `-` is standard input). Other columns are ignored."""
    name = display_name(path)
    with open_text(path) as lines:
        first = next(lines, "")
        for number, values in read_rows(chain([first], lines), _format(path, first), name, needed=("a", "b")):
            yield _pair_row(values, f"{name}, line {number}")


def _format(path: str | Path, first_line: str) -> str:
    """Infer the format from the file extension, else from the first line."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in {".gz", ".xz"}]
    by_suffix = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
    if suffixes and suffixes[-1] in by_suffix:
        return by_suffix[suffixes[-1]]
    if first_line.lstrip().startswith("{"):
        return "jsonl"
    return "tsv" if "\t" in first_line else "csv"


def _pair_row(values: dict[str, Any], place: str) -> PairLine:
    alpha = values.get("alpha")
    return PairLine(
        checked_text(values["a"], f"{place}: a"),
        checked_text(values["b"], f"{place}: b"),
        None if alpha is None or alpha == "" else checked_ratio(alpha, f"{place}: alpha"),
    )
