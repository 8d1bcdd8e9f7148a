"""Files in every format survive a round trip, and errors name the row."""

import datetime
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linda.errors import LindaError
from linda.files.spool import Spool, write_spool
from linda.files.tables import check_writable, find_format, open_table, read_table


def read(path: Path, texts: tuple[str, ...] = ("text",)) -> tuple[pa.Schema, list[dict[str, Any]]]:
    schema, batches = read_table(path, find_format(path), texts)
    return schema, [row for batch in batches for row in batch.to_pylist()]


def copy(source: Path, target: Path) -> None:
    schema, batches = read_table(source, find_format(source), ("text",))
    with open_table(target, find_format(target), schema) as write:
        for batch in batches:
            write(batch)


CSV = (
    "text,label,count,share,flag,code,price,empty,note\n"
    '"a, b ""c""\nd",yes,1,0.5,True,007,1.50,,\n'
    "  e 🙂 ,no,-20,1e-05,False,012,2.00,,x\n"
    "f,no,,,,1,3,,\n"
    '"g\rh","yes","0","2.5","True","0","0","","x"\n'
)


def test_csv_comes_out_byte_for_byte(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV.encode())
    copy(tmp_path / "a.csv", tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_bytes() == CSV.encode()


def test_csv_columns_have_the_type_that_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV.encode())
    schema, rows = read(tmp_path / "a.csv")
    types = {field.name: str(field.type) for field in schema}
    assert types == {
        "text": "string",
        "label": "string",
        "count": "int64",
        "share": "double",
        "flag": "bool",
        "code": "string",
        "price": "string",
        "empty": "string",
        "note": "string",
    }
    assert rows[0]["text"] == 'a, b "c"\nd'
    assert rows[1]["count"] == -20
    assert rows[2]["count"] is None


def test_text_that_looks_like_numbers_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n12,0\n13,1\n")
    assert read(tmp_path / "a.csv")[1] == [{"text": "12", "label": 0}, {"text": "13", "label": 1}]


def test_quotation_marks_mean_nothing_in_tsv(tmp_path: Path) -> None:
    content = 'text\tlabel\n"so he said\tyes\n6" nails\tno\n'
    (tmp_path / "a.tsv").write_text(content)
    copy(tmp_path / "a.tsv", tmp_path / "b.tsv")
    assert (tmp_path / "b.tsv").read_text() == content


def test_tsv_refuses_what_it_cannot_hold(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist([{"text": "a"}, {"text": "a\tb"}])
    check_writable(batch, "csv", range(2))
    with pytest.raises(LindaError, match="row 7: 'text' has a tab"):
        check_writable(batch, "tsv", range(6, 8))


JSON = [
    {"text": "a", "label": "yes", "n": 1, "mixed": 1, "object": {"a": 1}, "list": [1, 2], "big": 2**70, "flag": None},
    {
        "text": "b\u2028🙂",
        "label": "no",
        "n": 2,
        "mixed": "x",
        "object": {"b": 0},
        "list": [],
        "big": 1,
        "flag": True,
    },
    {"text": "c", "label": "no", "n": None, "mixed": None, "object": None, "list": None, "big": None, "flag": None},
]


def test_json_lines_come_out_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, JSON)) + "\n\n")
    copy(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    lines = (tmp_path / "b.jsonl").read_text(encoding="utf-8").rstrip("\n").split("\n")
    assert [json.loads(line) for line in lines] == JSON


def test_a_later_row_may_widen_a_type(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": 0, "x": 1}] * 3000 + [{"text": "b", "label": 1, "x": 2.5, "late": "y"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    schema, found = read(tmp_path / "a.jsonl")
    assert str(schema.field("x").type) == "double"
    assert found[0] == {"text": "a", "label": 0, "x": 1.0, "late": None}
    assert found[-1] == rows[-1]


def test_half_a_character_in_another_column_survives(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a", "x": "\\ud800"}\n')
    copy(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert json.loads((tmp_path / "b.jsonl").read_text()) == {"text": "a", "x": "\ud800"}


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": pa.array(["a", "b"]).dictionary_encode(),
            "label": pa.array([1, 0], pa.int8()),
            "when": [datetime.datetime(2024, 1, 2), None],
            "nested": [{"a": 1}, {"a": 2}],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    copy(tmp_path / "a.parquet", tmp_path / "b.parquet")
    result = pq.read_table(tmp_path / "b.parquet")
    assert result.to_pylist() == table.to_pylist()
    assert result.schema.field("label").type == pa.int8()
    copy(tmp_path / "a.parquet", tmp_path / "c.jsonl")
    first = json.loads((tmp_path / "c.jsonl").read_text().splitlines()[0])
    assert first == {"text": "a", "label": 1, "when": "2024-01-02 00:00:00", "nested": {"a": 1}}


@pytest.mark.parametrize(("suffix", "opener"), [(".gz", gzip.open), (".xz", lzma.open)])
def test_compressed_files(tmp_path: Path, suffix: str, opener: Any) -> None:
    with opener(tmp_path / f"a.csv{suffix}", "wt", encoding="utf-8", newline="") as file:
        file.write(CSV)
    copy(tmp_path / f"a.csv{suffix}", tmp_path / f"b.csv{suffix}")
    with opener(tmp_path / f"b.csv{suffix}", "rt", encoding="utf-8", newline="") as file:
        assert file.read() == CSV


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.csv",
            b"text,label\na,0\nb\n",
            r"a.csv, line 3 \(row 1\): wrong number of columns \(found 1, expected 2\)",
        ),
        ("a.csv", b"text,label\na,0\nb,1,2\n", r"row 1.*found 3, expected 2"),
        ("a.csv", b'text,label\n"a,0\n', "row 0.*unexpected end"),
        ("a.csv", b"text,text\na,b\n", "'text' occurs twice"),
        ("a.csv", b"", "is empty"),
        ("a.csv", b"text,label\n", "no rows"),
        ("a.csv", b"text,label\na\xff,0\n", "line 2: not UTF-8"),
        ("a.jsonl", b'{"text": "a"}\n{"text"\n', r"line 2 \(row 1\): not valid JSON"),
        ("a.jsonl", b"[1]\n", "not an object"),
        ("a.jsonl", b"\n", "no rows"),
        ("a.jsonl", b'{"text": "\xff"}\n', "line 1: not UTF-8"),
        ("a.parquet", b"PAR1 or not", "not a Parquet file"),
        ("a.csv.gz", b"not gzip", "damaged"),
    ],
)
def test_bad_files_are_told(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LindaError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["a", "a.txt", "a.gz", "a.parquet.gz", "a.xlsx"])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(LindaError, match=r"\.csv, \.tsv, \.jsonl"):
        find_format(name)


def test_formats_by_name() -> None:
    names = ["a.csv", "a.b.tsv.gz", "A.JSONL.XZ", "a.ndjson", "a.parquet", "-"]
    assert [find_format(name) for name in names] == ["csv", "tsv", "jsonl", "jsonl", "parquet", "jsonl"]
    assert find_format("-", "csv") == "csv"


@pytest.mark.parametrize("count", [1, 63, 64, 65, 3000])
def test_a_spool_gives_any_row(tmp_path: Path, count: int) -> None:
    rows = [{"text": f"text {row}", "label": row % 2, "x": [row]} for row in range(count)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_spool(tmp_path / "a.arrow", *read_table(tmp_path / "a.jsonl", "jsonl", ("text",)))
    spool = Spool(tmp_path / "a.arrow")
    assert len(spool) == count
    assert spool.columns == ["text", "label", "x"]
    wanted = [count - 1, 0, count // 2, count - 1]
    assert spool.fetch("text", wanted) == [f"text {row}" for row in wanted]
    assert list(spool.scan(["label", "text"])) == [(row["label"], row["text"]) for row in rows]
    assert [row for batch in spool.batches() for row in batch.to_pylist()] == rows


def test_a_spool_knows_values_of_several_types_apart(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"label": 1}\n{"label": "1"}\n{"label": null}\n')
    write_spool(tmp_path / "a.arrow", *read_table(tmp_path / "a.jsonl", "jsonl", ()))
    assert Spool(tmp_path / "a.arrow").fetch("label", [0, 1, 2]) == [1, "1", None]
