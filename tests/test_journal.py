"""The journal of a block contains its finished chunks."""

from collections import Counter
from pathlib import Path

import pytest

from linda.augmentation.pipeline import Chunk
from linda.augmentation.summary import Tally
from linda.augmentation.tables import NewRow
from linda.errors import LindaError
from linda.file_runs.journal import Journal


def chunk(start: int) -> Chunk:
    rows = [NewRow((f"text {start} 🙂", "pair"), [0.25, 0.75], start, None, None, 5)]
    return Chunk(start, start + 2, rows, Tally(2, 1, Counter(copies=1), Counter(copies=1), Counter({1: 1})))


def test_what_is_appended_is_read_again(tmp_path: Path) -> None:
    with Journal(tmp_path / "block") as journal:
        journal.append(chunk(0))
        journal.append(chunk(2))
    with Journal(tmp_path / "block") as again:
        assert list(again.chunks()) == [chunk(0), chunk(2)]
        assert again.rows_done() == 4


@pytest.mark.parametrize("kept", range(5, 60, 11))
def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path, kept: int) -> None:
    with Journal(tmp_path / "block") as journal:
        journal.append(chunk(0))
        file = journal.folder / "chunks.jsonl"
        whole = file.read_bytes()
        journal.append(chunk(2))
        file.write_bytes(whole + file.read_bytes()[len(whole) :][:kept])
    assert Journal(tmp_path / "block").rows_done() == 2
    with Journal(tmp_path / "block") as again:
        assert list(again.chunks()) == [chunk(0)]
        again.append(chunk(2))
        assert list(again.chunks()) == [chunk(0), chunk(2)]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    with Journal(tmp_path / "block") as journal:
        journal.append(chunk(0))
        journal.append(chunk(2))
        file = journal.folder / "chunks.jsonl"
        file.write_bytes(file.read_bytes().replace(b'"rows"', b'"raws"', 1))
        with pytest.raises(LindaError, match=r"chunks\.jsonl, line 1 is damaged"):
            list(journal.chunks())


def test_two_processes_do_not_share_a_journal(tmp_path: Path) -> None:
    with Journal(tmp_path / "block"), pytest.raises(LindaError, match="another process"), Journal(tmp_path / "block"):
        pass
    with Journal(tmp_path / "block"):
        pass


def test_a_removed_journal_leaves_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path / "block") as journal:
        journal.append(chunk(0))
        journal.remove()
    assert list(tmp_path.iterdir()) == []
