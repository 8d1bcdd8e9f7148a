"""The folder of a run stores parts and manifest, and detects files of other runs."""

import errno
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linda.augmentation.summary import Tally
from linda.errors import LindaError
from linda.file_runs.blocks import BlockedTable
from linda.file_runs.journal import Journal
from linda.file_runs.parts import Manifest, PartsFolder
from test_journal import chunk

RUN = {"seed": 1, "gates": {"copies": True}, "classes": (1, 2)}
SCHEMA = pa.schema({"text": pa.string()}, metadata={"label_names": "[1, 2]"})
BATCH = pa.RecordBatch.from_pydict({"text": ["a", "b"]}, schema=SCHEMA)
TALLY = Tally(2, 1, Counter(copies=1), Counter(copies=1), Counter({1: 1}))


def manifest(run: dict[str, Any] = RUN) -> Manifest:
    return Manifest(run, BlockedTable.of([1, 2], [(2, 0, [1, 1]), (1, 0, [1, 0])]), SCHEMA, [["a.csv", 5, 6]])


def begin(
    folder: Path, run: dict[str, Any] | None = None, *, resume: bool = False, restart: bool = False
) -> tuple[PartsFolder, Manifest | None]:
    run_folder = PartsFolder(folder / ".out.csv.linda-journal")
    run_folder.take()
    try:
        return run_folder, run_folder.begin(run or RUN, resume=resume, restart=restart)
    except LindaError:
        run_folder.release()
        raise


def unfinished(folder: Path) -> None:
    """A run with a manifest and one chunk of its first block, as if the process had been killed."""
    run_folder, found = begin(folder)
    assert found is None
    run_folder.write_manifest(manifest())
    journal_folder = run_folder.journal_folder(0)
    assert journal_folder is not None
    with Journal(journal_folder) as journal:
        journal.append(chunk(0))
    run_folder.release()


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder, _ = begin(tmp_path)
    folder.write_manifest(manifest())
    found = folder.manifest()
    assert found is not None
    assert found.table == manifest().table
    assert found.fingerprint == manifest().fingerprint
    assert found.schema.equals(SCHEMA, check_metadata=True)


def test_parts_are_joined_in_order_with_their_counts(tmp_path: Path) -> None:
    folder, _ = begin(tmp_path)
    folder.write_manifest(manifest())
    folder.write_part(manifest(), 1, [BATCH.slice(1)], TALLY)
    assert folder.missing(manifest()) == [0]
    with pytest.raises(LindaError, match=r"part-00000\.parquet is missing; compute it with --block-range 0:1"):
        folder.tally(manifest(), [0, 1])
    folder.write_part(manifest(), 0, [BATCH], TALLY)
    assert folder.tally(manifest(), [0, 1]) == TALLY + TALLY
    batches = list(folder.read_parts(manifest()))
    assert [batch.to_pydict()["text"] for batch in batches] == [["a", "b"], ["b"]]
    assert all(batch.schema.equals(SCHEMA, check_metadata=True) for batch in batches)
    assert folder.rows_done() == 4


def test_a_part_of_another_run_is_an_error(tmp_path: Path) -> None:
    folder, _ = begin(tmp_path)
    folder.write_part(manifest({**RUN, "seed": 2}), 0, [BATCH], TALLY)
    with pytest.raises(LindaError, match=r"part-00000\.parquet belongs to a run with other input"):
        folder.tally(manifest(), [0])


def test_a_part_under_the_name_of_another_block_is_an_error(tmp_path: Path) -> None:
    folder, _ = begin(tmp_path)
    folder.write_part(manifest(), 1, [BATCH], TALLY)
    assert folder.storage.local is not None
    shutil.copy(folder.storage.local / "part-00001.parquet", folder.storage.local / "part-00000.parquet")
    message = r"part-00000\.parquet holds block 1; delete it and compute it with --block-range 0:1"
    with pytest.raises(LindaError, match=message):
        folder.tally(manifest(), [0, 1])


def test_a_part_with_damaged_rows_is_named(tmp_path: Path) -> None:
    folder, _ = begin(tmp_path)
    for number in (0, 1):
        folder.write_part(manifest(), number, [BATCH], TALLY)
    assert folder.storage.local is not None
    path = folder.storage.local / "part-00001.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 40 + content[44:])  # the footer stays as it is
    folder.tally(manifest(), [0, 1])
    message = r"part-00001\.parquet is damaged \(.+\); delete it and compute it with --block-range 1:2"
    with pytest.raises(LindaError, match=message):
        list(folder.read_parts(manifest()))


def test_a_full_disk_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = begin(tmp_path)
    folder.write_part(manifest(), 0, [BATCH], TALLY)

    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "ParquetFile", full)
    with pytest.raises(OSError, match="No space left"):
        list(folder.read_parts(manifest()))


@pytest.mark.parametrize("damage", [b"", b"PAR1 nonsense PAR1"])
def test_a_damaged_part_is_named(tmp_path: Path, damage: bytes) -> None:
    folder, _ = begin(tmp_path)
    (tmp_path / ".out.csv.linda-journal" / "part-00000.parquet").write_bytes(damage)
    with pytest.raises(LindaError, match=r"part-00000\.parquet is not a part of a run, or is damaged"):
        folder.tally(manifest(), [0])


def test_a_parquet_file_from_elsewhere_is_no_part(tmp_path: Path) -> None:
    folder, _ = begin(tmp_path)
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / ".out.csv.linda-journal" / "part-00000.parquet")
    with pytest.raises(LindaError, match="is not a part of a run"):
        folder.tally(manifest(), [0])


def test_an_unfinished_run_is_told_and_left_alone(tmp_path: Path) -> None:
    unfinished(tmp_path)
    with pytest.raises(LindaError, match=r"2 rows done.*--resume.*--restart"):
        begin(tmp_path)
    folder, found = begin(tmp_path, resume=True)
    assert found is not None
    assert folder.rows_done() == 2


def test_a_run_with_other_settings_is_not_resumed(tmp_path: Path) -> None:
    unfinished(tmp_path)
    with pytest.raises(LindaError, match="has seed 1, this one 2"):
        begin(tmp_path, {**RUN, "seed": 2}, resume=True)


def test_restart_forgets(tmp_path: Path) -> None:
    unfinished(tmp_path)
    folder, found = begin(tmp_path, {**RUN, "seed": 2}, restart=True)
    assert found is None
    assert folder.rows_done() == 0


def test_resume_with_nothing_to_resume_begins(tmp_path: Path) -> None:
    assert begin(tmp_path, resume=True)[1] is None


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    first, _ = begin(tmp_path)
    with pytest.raises(LindaError, match="another process"):
        begin(tmp_path, resume=True)
    first.release()
    begin(tmp_path, resume=True)


def test_a_removed_run_leaves_nothing(tmp_path: Path) -> None:
    unfinished(tmp_path)
    begin(tmp_path, resume=True)[0].remove()
    assert list(tmp_path.iterdir()) == []


def test_a_run_killed_while_it_was_removed_is_nobodys(tmp_path: Path) -> None:
    unfinished(tmp_path)
    (tmp_path / ".out.csv.linda-journal" / "_manifest.json").unlink()
    folder, found = begin(tmp_path)
    assert found is None
    assert folder.rows_done() == 0


def test_a_run_that_fails_before_its_first_chunk_leaves_nothing(tmp_path: Path) -> None:
    folder, _ = begin(tmp_path)
    folder.write_manifest(manifest())
    folder.give_up()
    assert list(tmp_path.iterdir()) == []
    unfinished(tmp_path)
    begin(tmp_path, resume=True)[0].give_up()
    assert begin(tmp_path, resume=True)[0].rows_done() == 2


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LindaError, match="cannot write to"):
        begin(tmp_path / "file")


def test_a_folder_of_somebody_else_is_not_taken_for_a_journal(tmp_path: Path) -> None:
    (tmp_path / ".out.csv.linda-journal").mkdir()
    (tmp_path / ".out.csv.linda-journal" / "letter.txt").write_text("dear")
    with pytest.raises(LindaError, match="exists and is not the journal of a run"):
        begin(tmp_path, restart=True)
    assert (tmp_path / ".out.csv.linda-journal" / "letter.txt").read_text() == "dear"


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    (tmp_path / "_work").mkdir()
    folder = PartsFolder(tmp_path, is_output=True)
    with pytest.raises(LindaError, match=r"not empty \(letter.txt\) and contains no run"):
        folder.begin(RUN, resume=False, restart=True)
    folder.give_up()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_work", "letter.txt"]
