"""User errors with `linda augment` are reported in one line, and no file of the user is changed."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from linda.augmentation import Augmenter
from linda.augmentation.texts import TextRequest, write_in_processes
from linda.cli import main
from linda.errors import LindaError
from linda.file_runs.file_pipeline import augment_file
from linda.files.storage import file_system


class _CannotBeSent(Exception):
    """Like exceptions of libraries that are not written in Python, it fails when it is unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


def _broken_writer() -> Any:
    def write(tasks: Any) -> Any:
        raise _CannotBeSent("this", "that")

    return write


def test_an_error_in_a_worker_that_cannot_be_sent_ends_the_run() -> None:
    request = TextRequest(("the cat",), ("a dog",), 0.5, 0)
    with pytest.raises(RuntimeError, match="this and that"), write_in_processes(_broken_writer, 2) as write_all:
        list(write_all([[request]] * 4))


@pytest.mark.parametrize("name", ["out.csv.part", "out.csv.journal", "out.csv.labels.json", ".out.csv.linda-journal"])
def test_a_file_of_the_users_is_left_alone_even_as_the_input(tmp_path: Path, name: str) -> None:
    source = tmp_path / name
    source.write_text("text,label\nthe cat sat,a\na dog ran,a\nwho is it,b\nwhere is it,b\n")
    before = source.read_bytes()
    if name in ("out.csv.part", "out.csv.journal"):
        augment_file(Augmenter(method="eda"), source, tmp_path / "out.csv", source_format="csv")
        assert {path.name for path in tmp_path.iterdir()} == {name, "out.csv", "out.csv.labels.json"}
    else:
        with pytest.raises(LindaError, match=re.escape(name)):
            augment_file(Augmenter(method="eda"), source, tmp_path / "out.csv", source_format="csv")
        assert [path.name for path in tmp_path.iterdir()] == [name]
    assert source.read_bytes() == before


def test_a_folder_of_the_users_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text,label\nthe cat sat,a\na dog ran,a\n")
    mine = tmp_path / ".out.csv.linda-journal"
    mine.mkdir()
    (mine / "run.json").write_text("mine")
    with pytest.raises(LindaError, match="is not the journal of a run"):
        augment_file(Augmenter(method="eda"), tmp_path / "in.csv", tmp_path / "out.csv")
    assert (mine / "run.json").read_text() == "mine"


def test_a_range_of_classes_and_a_seed_of_numpy(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text,label\nthe cat sat,0\na dog ran,0\nwho is it,1\nwhere is it,1\n")
    augmenter = Augmenter(method="eda", classes=range(3), seed=np.int64(3), per_row=np.int64(1))
    augment_file(augmenter, tmp_path / "in.csv", tmp_path / "out.csv")
    assert json.loads((tmp_path / "out.csv.labels.json").read_text())["label_names"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ({"text": "a b", "label": 2**70}, "beyond 64 bits"),
        ({"text": "a b", "label": "\ud800"}, "lone surrogate"),
        ({"text": "a b", "label": "x", "\ud800": 1}, "lone surrogate"),
    ],
)
def test_labels_and_keys_that_no_file_can_hold(tmp_path: Path, line: dict[str, Any], wanted: str) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps(line) + "\n" + json.dumps(line) + "\n")
    with pytest.raises(LindaError, match=wanted):
        augment_file(Augmenter(method="eda"), tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_string_views_of_parquet_are_texts(tmp_path: Path) -> None:
    columns = {"text": ["the cat sat", "a dog ran", "who is it"], "label": ["a", "a", "a"]}
    views = pa.table({name: pa.array(values, pa.string_view()) for name, values in columns.items()})
    pq.write_table(views, tmp_path / "in.parquet")
    augment_file(Augmenter(method="eda", only_new=False), tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").column("text").to_pylist()[:3] == columns["text"]


def test_damaged_pages_of_parquet_are_told(tmp_path: Path) -> None:
    rows = pa.table({"text": [f"the cat {number} sat" for number in range(3000)], "label": ["a"] * 3000})
    pq.write_table(rows, tmp_path / "in.parquet", compression="snappy", use_dictionary=False)
    content = bytearray((tmp_path / "in.parquet").read_bytes())
    content[200:2000] = bytes(1800)
    (tmp_path / "in.parquet").write_bytes(content)
    with pytest.raises(LindaError, match=r"in\.parquet is damaged"):
        augment_file(Augmenter(method="eda"), tmp_path / "in.parquet", tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


@pytest.mark.parametrize("settings", [{"per_row": 10**9}, {"total": 10**9}, {"per_row": 2**70}, {"total": 2**70}])
def test_more_rows_than_a_plan_can_have(tmp_path: Path, settings: dict[str, int]) -> None:
    (tmp_path / "in.csv").write_text("text,label\nthe cat sat,a\na dog ran,a\n")
    with pytest.raises(LindaError, match=next(iter(settings))):
        augment_file(Augmenter(method="eda", **settings), tmp_path / "in.csv", tmp_path / "out.csv")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"per_row": None}, "per_row is None"),
        ({"ratio": None}, "ratio is None; it must be a text"),
        ({"weight": "x"}, "weight is 'x'"),
        ({"temperature": None}, "the temperature is None"),
        ({"gates": None}, "gates is None"),
        ({"protect": [5]}, "protect is 5"),
        ({"protect": "regex:" + "(" * 500}, "is not a valid regular expression"),
        ({"classes": 5}, "classes is 5"),
        ({"method": "backtranslation", "translate": ("one",)}, "give two models"),
        ({"encoder": "\udcff", "partners": "nearest", "method": "splice"}, "encoder contains a lone surrogate"),
        ({"balance": 10**30}, "balance is 1000"),
    ],
)
def test_wrong_types_of_settings_are_told_before_anything_is_read(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(LindaError, match=re.escape(message)):
        Augmenter(**{"method": "eda", **settings})


def test_a_constant_ratio_may_be_a_number() -> None:
    assert Augmenter(ratio=0.5).settings == Augmenter(ratio="0.5").settings  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": 5}, "source is 5"),
        ({"plan": []}, "plan is []"),
        ({"block_rows": None}, "block_rows is None"),
        ({"block_range": (1,)}, "block_range is (1,); it must be two block numbers, such as (0, 40)"),
        ({"augmenter": {}}, "augmenter is {}"),
    ],
)
def test_wrong_types_of_files_and_blocks_are_told(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    given = {"augmenter": Augmenter(method="eda"), "source": "in.csv", "output": tmp_path / "out.csv"} | settings
    with pytest.raises(LindaError, match=re.escape(message)):
        augment_file(**given)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("url", ["s3://", "gs:///", "://out/"])
def test_a_url_of_nothing_is_told_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    (tmp_path / "in.csv").write_text("text,label\nthe cat sat,a\na dog ran,a\n")
    monkeypatch.chdir(tmp_path)
    for files in ({"source": "in.csv", "output": url}, {"source": url, "output": "out.csv"}):
        with pytest.raises(LindaError, match=f"the URL {url} names no bucket or folder"):
            augment_file(Augmenter(method="eda"), **files)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("command", ["export s3://bucket/model out", "augment in.csv --output out.csv --model gs://m"])
def test_a_url_where_only_a_local_path_can_be(command: str) -> None:
    told = CliRunner().invoke(main, command.split())
    assert told.exit_code == 2
    assert "is a URL, which is not supported here; give a local path" in told.stderr


def test_google_cloud_storage_is_not_waited_for_without_end() -> None:
    for url, seconds in (("gs://bucket/x.csv", 20), ("gcs://bucket/x.csv?retry_limit_seconds=3", 3)):
        found, path = file_system(url)
        assert path == "bucket/x.csv"
        _, (options,) = found.fs.__reduce__()
        assert options["retry_time_limit"].total_seconds() == seconds


@pytest.mark.parametrize("command", ["augment in.csv --gpus-per-worker=nan", "middles make a --table t --restyled=nan"])
def test_nan_is_in_no_range(command: str) -> None:
    told = CliRunner().invoke(main, [*command.split(), "--output=out"])
    assert told.exit_code == 2
    assert "nan is not a finite number" in told.stderr
