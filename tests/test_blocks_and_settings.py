"""Balance, unlabelled texts and several labels per row, in a table of one block and of several."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linda.augmentation import Augmenter
from linda.augmentation.settings import AugmentationSettings
from linda.errors import LindaError
from linda.file_runs import blocks
from linda.file_runs.blocks import BlockedTable
from linda.file_runs.file_pipeline import augment_file, draw_table_plan
from splice import Splice, sentences

TEXTS = sentences(60)
SETTINGS: dict[str, Any] = {"method": Splice(), "ratio": "0.2-0.8", "batch_size": 4}


class Teacher:
    """Says that every text is of the first class."""

    def predict_proba(self, texts: list[str]) -> np.ndarray:
        return np.tile([1.0, 0.0], (len(texts), 1))


def write(path: Path, labels: list[Any]) -> Path:
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, labels, strict=False)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    """15 rows of the class `yes` among 60."""
    return write(tmp_path / "in.jsonl", ["yes" if row % 4 == 0 else "no" for row in range(60)])


def test_a_class_is_filled_up_by_all_blocks_together(uneven: Path, tmp_path: Path) -> None:
    summary = augment_file(Augmenter(**SETTINGS, balance=True), uneven, tmp_path / "out.jsonl", block_rows=20)
    rows = read(tmp_path / "out.jsonl")
    assert Counter(row["label"] for row in rows) == {"no": 45, "yes": 45}
    new = [row for row in rows if row["parent_a"] is not None]
    assert Counter(row["parent_a"] // 20 for row in new) == {0: 10, 1: 10, 2: 10}
    assert all(row["parent_a"] // 20 == row["parent_b"] // 20 for row in new)
    assert summary.wanted is not None
    assert summary.wanted.tolist() == [0, 30]
    assert "label yes               15 before        45 after" in str(summary)


def test_ranges_of_a_balanced_run_give_the_same_file(uneven: Path, tmp_path: Path) -> None:
    augmenter = Augmenter(**SETTINGS, balance={"yes": 25})
    augment_file(augmenter, uneven, tmp_path / "whole.jsonl", block_rows=25)
    counted = [
        augment_file(augmenter, uneven, tmp_path / "out.jsonl", block_rows=25, block_range=(number, number + 1))
        for number in (2, 0, 1)
    ]
    assert sum(summary.tally.made for summary in counted) == 10
    assert sum(summary.wanted.sum() for summary in counted if summary.wanted is not None) == 10
    augment_file(augmenter, uneven, tmp_path / "out.jsonl", block_rows=25, join=True)
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_shares_of_a_class_add_up() -> None:
    table = BlockedTable.of(["no", "yes"], [(20, 0, [17, 3]), (20, 2, [18, 0]), (10, 0, [5, 5])])
    shares = [
        blocks.rows_for_block(AugmentationSettings(**SETTINGS, balance=True), block, table) for block in table.blocks
    ]
    assert sum(shares).tolist() == [0, 32]
    assert [share[1] for share in shares] == [12, 0, 20]


def test_one_block_is_balanced_as_in_memory(uneven: Path, tmp_path: Path) -> None:
    augmenter = Augmenter(**SETTINGS, balance=True)
    augment_file(augmenter, uneven, tmp_path / "out.jsonl")
    rows = read(uneven)
    expected = augmenter.augment({name: [row[name] for row in rows] for name in ("text", "label")})
    assert read(tmp_path / "out.jsonl") == expected


def test_a_block_that_cannot_make_its_share_is_told_before_the_work(uneven: Path, tmp_path: Path) -> None:
    augmenter = Augmenter(**{**SETTINGS, "ratio": "0.5"}, balance=100)
    with pytest.raises(LindaError, match=r"block 0: 28 new rows of the class 'yes' are needed.*--block-rows"):
        augment_file(augmenter, uneven, tmp_path / "out.jsonl", block_rows=20)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_a_plan_and_balance_exclude_each_other(uneven: Path, tmp_path: Path) -> None:
    plan = draw_table_plan(Augmenter(**SETTINGS), uneven, block_rows=20)
    with pytest.raises(LindaError, match="leave out the plan or balance"):
        augment_file(Augmenter(**SETTINGS, balance=True), uneven, tmp_path / "out.jsonl", plan=plan)


def test_unlabelled_texts_need_one_block(uneven: Path, tmp_path: Path) -> None:
    augmenter = Augmenter(**SETTINGS, labels="predicted", teacher=Teacher(), unlabelled=["one more", "and another one"])
    with pytest.raises(LindaError, match="has 3; set --block-rows to at least 60"):
        augment_file(augmenter, uneven, tmp_path / "out.jsonl", block_rows=20)
    augment_file(augmenter, uneven, tmp_path / "out.jsonl", block_rows=60)
    partners = {row["parent_b"] for row in read(tmp_path / "out.jsonl") if row["parent_a"] is not None}
    assert partners == {60, 61}


def test_rows_with_several_labels_have_the_classes_of_the_table(tmp_path: Path) -> None:
    labels = [["a", "b"]] * 15 + [["b"]] * 4 + [["a"]] + [["c"]] * 20 + [[]] * 20
    source = write(tmp_path / "in.jsonl", labels)
    notes: list[str] = []
    augmenter = Augmenter(**SETTINGS, multi_label=True)
    summary = augment_file(augmenter, source, tmp_path / "out.jsonl", block_rows=20, on_note=notes.append)
    assert summary.counts == {"a": 16, "b": 19, "c": 20}
    assert notes[1].startswith("1 rows have a label that no other row in their block has")
    rows = read(tmp_path / "out.jsonl")
    assert {len(row["label_probs"]) for row in rows} == {3}
    by_block = {row["parent_a"] // 20: row["label_probs"] for row in rows if row["parent_a"] in range(20, 60)}
    assert by_block == {1: [0.0, 0.0, 1.0], 2: [0.0, 0.0, 0.0]}
    augment_file(augmenter, source, tmp_path / "again.jsonl", block_rows=20, block_range=(1, 2))
    augment_file(augmenter, source, tmp_path / "again.jsonl", block_rows=20, resume=True)  # from its manifest
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()
