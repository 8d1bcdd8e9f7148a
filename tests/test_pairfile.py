"""Files of pairs: every format gives the same rows, one by one; a bad row is named by file and line."""

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from linda.errors import LindaError
from linda.files.pairfile import read_pairs

ROWS = [("Ein Satz.", 'She said "no", twice.'), ("第三 🦋", "b, with a comma"), ('"quoted', "plain")]

TSV = "id\ta\tb\n" + "".join(f"{i}\t{a}\t{b}\n" for i, (a, b) in enumerate(ROWS))
CSV = "b,a\n" + "".join('"{}","{}"\n'.format(b.replace('"', '""'), a.replace('"', '""')) for a, b in ROWS)
JSONL = "".join(json.dumps({"a": a, "b": b, "other": 1}) + "\n" for a, b in ROWS)


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"), [("p.tsv", TSV), ("p.csv", CSV), ("p.jsonl", JSONL), ("tsv", TSV), ("json", JSONL)]
)
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str, content: str) -> None:
    rows = list(read_pairs(write(tmp_path, name, content)))
    assert [(row.a, row.b) for row in rows] == ROWS
    assert all(row.alpha is None for row in rows)


@pytest.mark.parametrize("content", [TSV, CSV, JSONL])
def test_standard_input_is_recognized_by_its_first_line(monkeypatch, content: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    assert [(row.a, row.b) for row in read_pairs("-")] == ROWS


def test_compressed_windows_and_marked_files(tmp_path: Path) -> None:
    path = write(tmp_path, "P.CSV.gz", gzip.compress("\ufeffa,b\r\nx,y\r\n\r\n".encode()))
    assert [(row.a, row.b) for row in read_pairs(path)] == [("x", "y")]


def test_a_quoted_csv_cell_may_span_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", 'a,b\n"two\nlines",y\n')
    assert [(row.a, row.b) for row in read_pairs(path)] == [("two\nlines", "y")]


def test_ratios_of_the_rows(tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", "a,b,alpha\nx,y,0.25\nx,y,\n")
    assert [row.alpha for row in read_pairs(path)] == [0.25, None]
    path = write(tmp_path, "p.jsonl", '{"a": "x", "b": "y", "alpha": 1}\n')
    assert [row.alpha for row in read_pairs(path)] == [1.0]


def test_a_text_beyond_the_csv_modules_own_limit(tmp_path: Path) -> None:
    long = "word " * 40_000
    path = write(tmp_path, "p.csv", f"a,b\n{long},y\n")
    assert [row.a for row in read_pairs(path)] == [long]


def test_rows_come_before_the_file_is_read_to_its_end(tmp_path: Path) -> None:
    rows = read_pairs(write(tmp_path, "p.jsonl", JSONL.encode() + b"\xff\n"))
    assert [next(rows).a for _ in ROWS] == [a for a, _ in ROWS]
    with pytest.raises(LindaError, match="line 4: not UTF-8"):
        next(rows)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.tsv", "a\tc\nx\ty\n", "no column 'b' in the first line (found 'a', 'c')"),
        ("p.csv", "", "is empty; its first line must name the columns"),
        (
            "p.tsv",
            "a\tb\nx\n",
            "p.tsv, line 2 (row 0): wrong number of columns (found 1, expected 2)",
        ),
        ("p.csv", 'a,b\nx,y\n"never closed,y\n', "p.csv, line 3 (row 1): unexpected end of data"),
        ("p.jsonl", '{"a": "x", "b": "y"}\n{"a": "x"}\n', "p.jsonl, line 2 (row 1): no 'b'"),
        ("p.jsonl", '{"a": "x", "b": "y"\n', "p.jsonl, line 1 (row 0): not valid JSON"),
        ("p.jsonl", "[" * 100_000 + "\n", "p.jsonl, line 1 (row 0): not valid JSON"),
        ("p.jsonl", '["x", "y"]\n', "p.jsonl, line 1 (row 0): not an object"),
        ("p.jsonl", '{"a": "x", "b": 3}\n', "p.jsonl, line 1: b is 3, not a text"),
        (
            "p.jsonl",
            '{"a": "x", "b": "\\ud800"}\n',
            "p.jsonl, line 1: b contains a lone surrogate at position 1",
        ),
        ("p.csv", 'a,b\n"two\nlines",y\nx, \n', "p.csv, line 4: b is empty"),
        ("p.csv", "a,b,alpha\nx,y,1.01\n", "p.csv, line 2: alpha is 1.01; it must lie between 0"),
        ("p.csv", "a,b,alpha\nx,y,nan\n", "p.csv, line 2: alpha is nan; it must lie between 0"),
        ("p.csv", "a,b,alpha\nx,y,half\n", "p.csv, line 2: alpha is 'half', not a number"),
        ("p.jsonl", '{"a": "x", "b": "y", "alpha": true}\n', "p.jsonl, line 1: alpha is True"),
        ("p.tsv", b"a\tb\n\xe9t\xe9\ty\n", "p.tsv, line 2: not UTF-8 (byte 0xe9 at position 1)"),
    ],
)
def test_bad_rows_are_one_line_that_names_the_place(tmp_path: Path, name, content, message: str) -> None:
    with pytest.raises(LindaError) as caught:
        list(read_pairs(write(tmp_path, name, content)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
