"""From file to file: the same bytes for any batch size, and no incomplete file under the output's name."""

import errno
import json
import shutil
from collections import namedtuple
from pathlib import Path
from random import Random
from typing import Any

import datasets
import pandas as pd
import pyarrow.parquet as pq
import pytest

from linda.augmentation import Augmenter
from linda.augmentation.summary import RunSummary
from linda.errors import LindaError
from linda.file_runs import block_pipeline, file_pipeline
from linda.file_runs.file_pipeline import augment_file
from linda.planning.plan import Plan, PlanRow
from splice import Splice, sentences
from tiny_encoder import WORDS, save_tiny_bert

TEXTS = sentences(40)
ROWS = [{"text": text, "label": ["no", "yes"][row % 2], "id": row, "tag": f"t{row}"} for row, text in enumerate(TEXTS)]


def write(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    frame = pd.DataFrame(rows)
    if ".parquet" in path.name:
        frame.to_parquet(path)
    elif ".jsonl" in path.name:
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    return path


def run(source: Path, output: Path | str, *, plan: Plan | None = None, **settings: Any) -> RunSummary:
    options = {name: settings.pop(name) for name in ("resume", "restart", "on_note") if name in settings}
    return augment_file(
        Augmenter(**{"method": Splice(), "ratio": "0.2-0.8", **settings}), source, output, plan=plan, **options
    )


def read(path: Path) -> list[dict[str, Any]]:
    if ".parquet" in path.name:
        return pq.read_table(path).to_pylist()
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


NAMES = ["a.csv", "a.tsv", "a.jsonl", "a.parquet"]


@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("output", ["out.parquet", "out.jsonl"])
def test_every_format_gives_the_same_rows(tmp_path: Path, source: str, output: str) -> None:
    summary = run(write(tmp_path / source), tmp_path / output)
    rows = read(tmp_path / output)
    assert rows[:40] == [
        {
            **row,
            "label_probs": [1.0, 0.0] if row["label"] == "no" else [0.0, 1.0],
            **dict.fromkeys(("parent_a", "parent_b", "alpha", "plan_seed")),
            "method": "original",
        }
        for row in ROWS
    ]
    new = rows[40:]
    assert summary.tally.made == len(new) > 30
    assert all(row["method"] == "splice" and row["id"] is None and row["tag"] is None for row in new)
    run(write(tmp_path / "b.csv"), tmp_path / "b.jsonl")
    assert new == read(tmp_path / "b.jsonl")[40:]


def test_csv_has_json_for_distributions_and_a_file_for_the_names(tmp_path: Path) -> None:
    run(write(tmp_path / "a.csv"), tmp_path / "out.csv")
    frame = pd.read_csv(tmp_path / "out.csv")
    assert json.loads(frame["label_probs"][0]) == [1.0, 0.0]
    assert frame["parent_a"][:40].isna().all()
    names = json.loads((tmp_path / "out.csv.labels.json").read_text())
    assert names == {"label": "label", "label_names": ["no", "yes"]}


def test_parquet_has_the_names_in_its_metadata_and_is_read_by_everyone(tmp_path: Path) -> None:
    run(write(tmp_path / "a.parquet"), tmp_path / "out.parquet")
    assert json.loads(pq.read_schema(tmp_path / "out.parquet").metadata[b"label_names"]) == ["no", "yes"]
    frame = pd.read_parquet(tmp_path / "out.parquet")
    data = datasets.Dataset.from_parquet(str(tmp_path / "out.parquet"), cache_dir=str(tmp_path / "cache"))
    assert len(frame) == len(data) > 70
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out.parquet"]


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_compressed_output_is_the_same_every_time(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / "a.csv")
    for name in ("one", "two"):
        run(tmp_path / "a.csv", tmp_path / f"{name}.csv{suffix}")
    assert (tmp_path / f"one.csv{suffix}").read_bytes() == (tmp_path / f"two.csv{suffix}").read_bytes()


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_the_size_of_a_batch_changes_no_byte(tmp_path: Path, batch_size: int) -> None:
    write(tmp_path / "a.csv")
    for name, size in (("one", 16), ("two", batch_size)):
        run(tmp_path / "a.csv", tmp_path / f"{name}.parquet", per_row=3, batch_size=size)
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


def test_only_new_rows_have_only_their_own_columns(tmp_path: Path) -> None:
    run(write(tmp_path / "a.jsonl"), tmp_path / "out.jsonl", only_new=True)
    rows = read(tmp_path / "out.jsonl")
    assert list(rows[0]) == ["text", "label", "label_probs", "parent_a", "parent_b", "alpha", "method", "plan_seed"]
    assert rows[0]["method"] == "splice"


@pytest.mark.parametrize(
    ("labels", "kind"), [([0, 1], int), ([True, False], bool), (["a", "b"], str), ([[0.9, 0.1], [0.2, 0.8]], int)]
)
def test_labels_come_back_in_their_own_type(tmp_path: Path, labels: list[Any], kind: type) -> None:
    rows = [{"text": text, "label": labels[row % 2]} for row, text in enumerate(TEXTS)]
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        run(write(tmp_path / name, rows), tmp_path / "out.parquet")
        assert {type(row["label"]) for row in read(tmp_path / "out.parquet")} == {kind}


def test_skipped_rows_are_left_out_and_parents_keep_their_numbers(tmp_path: Path) -> None:
    rows = [{**row, "text": ""} if row["id"] in (0, 7) else row for row in ROWS]
    notes: list[str] = []
    summary = run(write(tmp_path / "a.jsonl", rows), tmp_path / "out.jsonl", skip_empty=True, on_note=notes.append)
    assert summary.skipped == 2
    assert notes == ["skipped 2 rows without text"]
    found = read(tmp_path / "out.jsonl")
    originals = [row for row in found if row["method"] == "original"]
    assert [row["id"] for row in originals] == [row["id"] for row in ROWS if row["id"] not in (0, 7)]
    for row in found[len(originals) :]:
        assert row["text"].split()[0] == TEXTS[row["parent_a"]].split()[0]


def test_the_summary_tells_all(tmp_path: Path) -> None:
    text = str(run(write(tmp_path / "a.csv"), tmp_path / "out.csv", ratio="0.05", retries=0))
    assert "40 rows in, 0 made of 40 planned" in text
    assert "copies            40 rejected         0 replaced        40 left out" in text
    assert "label no                20 originals         0 new" in text


class KilledError(Exception):
    pass


@pytest.mark.parametrize("chunks_done", [0, 1, 3])
def test_a_run_that_dies_goes_on_to_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks_done: int
) -> None:
    source = write(tmp_path / "a.csv")
    expected = run(source, tmp_path / "whole.parquet", per_row=2, batch_size=10)
    append = block_pipeline.Journal.append
    with monkeypatch.context() as patch:

        def dying_append(journal: Any, chunk: Any) -> None:
            if chunk.start >= chunks_done * 10:
                raise KilledError
            append(journal, chunk)

        patch.setattr(block_pipeline.Journal, "append", dying_append)
        with pytest.raises(KilledError):
            run(source, tmp_path / "out.parquet", per_row=2, batch_size=10)
    assert not (tmp_path / "out.parquet").exists()
    if chunks_done:
        with pytest.raises(LindaError, match="unfinished run"):
            run(source, tmp_path / "out.parquet", per_row=2, batch_size=10)
        with pytest.raises(LindaError, match="has seed 0, this one 1"):
            run(source, tmp_path / "out.parquet", per_row=2, seed=1, resume=True)
    # Settings that do not affect the rows may change.
    found = run(source, tmp_path / "out.parquet", per_row=2, batch_size=7, resume=True)
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert found.tally == expected.tally
    assert not (tmp_path / ".out.parquet.linda-journal").exists()


def test_other_input_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "a.csv")
    with monkeypatch.context() as patch:
        patch.setattr(file_pipeline, "write_output", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(source, tmp_path / "out.csv")
    write(source, ROWS[:-1])
    with pytest.raises(LindaError, match="has input"):
        run(source, tmp_path / "out.csv", resume=True)
    run(source, tmp_path / "out.csv", restart=True)


def test_too_little_room_is_told_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    method = Splice()
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(100, 90, 10))
    with pytest.raises(LindaError, match="MB are needed"):
        run(write(tmp_path / "a.csv"), tmp_path / "out.csv", method=method)
    assert method.batches == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv"]


def test_a_disk_that_fills_up_is_told_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(block_pipeline.Journal, "append", full)
    with pytest.raises(LindaError, match=r"the disk is full.*--resume"):
        run(write(tmp_path / "a.csv"), tmp_path / "out.csv")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("a.csv", "same file"),
        ("link.csv", "same file"),
        ("missing/out.csv", "does not exist"),
        (".", "is a folder"),
        ("out.txt", r"\.csv"),
        ("/proc/out.csv", "cannot write"),
    ],
)
def test_an_output_that_cannot_be_is_told_at_once(tmp_path: Path, output: str, message: str) -> None:
    source = write(tmp_path / "a.csv")
    (tmp_path / "link.csv").symlink_to(source)
    target = tmp_path if output == "." else tmp_path / output
    if output == ".":
        (tmp_path / "folder.csv").mkdir()
        target = tmp_path / "folder.csv"
    with pytest.raises(LindaError, match=message):
        run(source, target)


def test_tabs_are_refused_by_tsv_before_the_work(tmp_path: Path) -> None:
    method = Splice()
    source = write(tmp_path / "a.jsonl", [{**ROWS[0], "tag": "a\tb"}, *ROWS[1:]])
    with pytest.raises(LindaError, match="row 0: 'tag'"):
        run(source, tmp_path / "out.tsv", method=method)
    assert method.batches == []


def test_a_plan_from_a_file_is_followed(tmp_path: Path) -> None:
    plan = Plan.of([PlanRow(3, 4, 0.5, 1), PlanRow(5, 6, 0.25, 2)])
    run(write(tmp_path / "a.csv"), tmp_path / "out.jsonl", plan=plan, only_new=True)
    assert [(row["parent_a"], row["parent_b"]) for row in read(tmp_path / "out.jsonl")] == [(3, 4), (5, 6)]


def test_a_teacher_is_fine_tuned_once_and_kept_for_resuming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [" ".join(Random(row).sample(WORDS, 6)) for row in range(20)]
    source = write(tmp_path / "a.csv", [{"text": text, "label": row % 2} for row, text in enumerate(words)])
    settings = {"labels": "predicted", "encoder": save_tiny_bert(tmp_path / "bert"), "batch_size": 5}
    run(source, tmp_path / "whole.jsonl", **settings)
    with monkeypatch.context() as patch:
        patch.setattr(block_pipeline.Journal, "append", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(source, tmp_path / "out.jsonl", **settings)
    with monkeypatch.context() as patch:
        patch.setattr("linda.classifier.TextClassifier.fit", lambda *_, **__: 1 / 0)
        run(source, tmp_path / "out.jsonl", resume=True, **settings)
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    new = [row for row in read(tmp_path / "out.jsonl") if row["method"] == "splice"]
    assert all(sum(row["label_probs"]) == pytest.approx(1, abs=1e-5) for row in new)
    assert len({tuple(row["label_probs"]) for row in new}) > 1


def test_neighbours_are_found_once_and_kept_for_resuming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [" ".join(Random(row).sample(WORDS, 6)) for row in range(20)]
    source = write(tmp_path / "a.csv", [{"text": text, "label": row % 2} for row, text in enumerate(words)])
    settings = {"partners": "nearest", "encoder": save_tiny_bert(tmp_path / "bert"), "batch_size": 5, "weight": 0.5}
    run(source, tmp_path / "whole.jsonl", **settings)
    append = block_pipeline.Journal.append

    def append_one(journal: Any, chunk: Any) -> None:
        append(journal, chunk)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(block_pipeline.Journal, "append", append_one)
        with pytest.raises(KilledError):
            run(source, tmp_path / "out.jsonl", **settings)
    with monkeypatch.context() as patch:
        patch.setattr("linda.planning.neighbours.nearest_rows", lambda *_, **__: 1 / 0)
        run(source, tmp_path / "out.jsonl", resume=True, **settings)
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert {row["weight"] for row in read(tmp_path / "out.jsonl")} == {1.0, 0.5}
    assert not (tmp_path / ".out.jsonl.linda-journal").exists()
