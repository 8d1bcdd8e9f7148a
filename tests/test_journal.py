"""The journal holds what is finished, and knows a run that is not its own."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from linda.augmentation.journal import Journal
from linda.augmentation.pipeline import Chunk
from linda.augmentation.summary import Tally
from linda.augmentation.tables import NewRow
from linda.errors import LindaError

RUN = {"seed": 1, "gates": {"copies": True}, "classes": (1, 2)}


def chunk(start: int) -> Chunk:
    rows = [NewRow((f"text {start} 🙂", "pair"), [0.25, 0.75], start, None, None, 5)]
    return Chunk(start, start + 2, rows, Tally(2, 1, Counter(copies=1), Counter(copies=1), Counter({1: 1})))


def begin(folder: Path, run: dict[str, Any] | None = None, *, resume: bool = False, restart: bool = False) -> Journal:
    journal = Journal(folder / "out.csv.journal")
    journal.begin(run or RUN, resume=resume, restart=restart)
    return journal


def test_what_is_appended_is_read_again(tmp_path: Path) -> None:
    journal = begin(tmp_path)
    journal.append(chunk(0))
    journal.append(chunk(2))
    journal.release()  # as if the process had been killed
    again = begin(tmp_path, resume=True)
    assert list(again.chunks()) == [chunk(0), chunk(2)]
    assert again.rows_done() == 4


@pytest.mark.parametrize("kept", range(5, 60, 11))
def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path, kept: int) -> None:
    journal = begin(tmp_path)
    journal.append(chunk(0))
    file = journal.folder / "chunks.jsonl"
    whole = file.read_bytes()
    journal.append(chunk(2))
    file.write_bytes(whole + file.read_bytes()[len(whole) :][:kept])
    journal.release()
    with pytest.raises(LindaError, match=r"2 rows done"):
        begin(tmp_path)
    again = begin(tmp_path, resume=True)
    assert list(again.chunks()) == [chunk(0)]
    again.append(chunk(2))
    assert list(again.chunks()) == [chunk(0), chunk(2)]


def test_an_unfinished_run_is_told_and_left_alone(tmp_path: Path) -> None:
    journal = begin(tmp_path)
    journal.append(chunk(0))
    journal.release()
    with pytest.raises(LindaError, match=r"2 rows done.*--resume.*--restart"):
        begin(tmp_path)
    assert begin(tmp_path, resume=True).rows_done() == 2


def test_a_run_with_other_settings_is_not_resumed(tmp_path: Path) -> None:
    begin(tmp_path).release()
    with pytest.raises(LindaError, match="has seed 1, this one 2"):
        begin(tmp_path, {**RUN, "seed": 2}, resume=True)


def test_restart_forgets(tmp_path: Path) -> None:
    journal = begin(tmp_path)
    journal.append(chunk(0))
    journal.release()
    assert begin(tmp_path, {**RUN, "seed": 2}, restart=True).rows_done() == 0


def test_resume_with_nothing_to_resume_begins(tmp_path: Path) -> None:
    assert begin(tmp_path, resume=True).rows_done() == 0


def test_two_runs_do_not_share_a_journal(tmp_path: Path) -> None:
    first = begin(tmp_path)
    with pytest.raises(LindaError, match="another process"):
        begin(tmp_path, resume=True)
    first.release()
    begin(tmp_path, resume=True)


def test_a_removed_journal_leaves_nothing(tmp_path: Path) -> None:
    journal = begin(tmp_path)
    journal.append(chunk(0))
    journal.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_journal_killed_while_it_was_removed_is_nobodys(tmp_path: Path) -> None:
    journal = begin(tmp_path)
    journal.append(chunk(0))
    (journal.folder / "run.json").unlink()
    journal.release()
    assert begin(tmp_path).rows_done() == 0


def test_a_run_that_fails_before_its_first_chunk_leaves_nothing(tmp_path: Path) -> None:
    begin(tmp_path).give_up()
    assert list(tmp_path.iterdir()) == []
    journal = begin(tmp_path)
    journal.append(chunk(0))
    journal.give_up()
    assert begin(tmp_path, resume=True).rows_done() == 2


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LindaError, match="cannot write to"):
        begin(tmp_path / "file")
