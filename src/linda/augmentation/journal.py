"""The state of a run on files, in the hidden folder `.OUT.linda-journal` next to its output.

    run.json        the settings and the input of the run
    input.arrow     the input, for access by row number
    neighbours.npy  the most similar rows of each row, for nearest partners
    teacher/        the teacher, if one was fine-tuned
    chunks.jsonl    one line per finished chunk of the plan, in plan order

A line is on disk before the next chunk begins. An incomplete last line (after a kill) is dropped.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from linda.augmentation.pipeline import Chunk
from linda.augmentation.summary import Tally
from linda.augmentation.tables import NewRow
from linda.errors import LindaError, os_reason, reason
from linda.files.jsonfile import read_json_object
from linda.files.textio import PART_PATTERN, atomic_writer


class Journal:
    """The journal of one output. Call `begin` first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.input = folder / "input.arrow"
        self.neighbours = folder / "neighbours.npy"
        self.teacher = folder / "teacher"
        self._run = folder / "run.json"
        self._chunks = folder / "chunks.jsonl"
        self._lock: int | None = None

    @classmethod
    def for_output(cls, output: Path) -> "Journal":
        return cls(output.with_name(f".{output.name}.linda-journal"))  # a name that no user's file has

    def begin(self, run: dict[str, Any], *, resume: bool, restart: bool) -> None:
        """Start a journal, or continue the journal of an unfinished run.

        Args:
            run: Everything that the rows depend on.
            resume: Continue an unfinished run with the same values, if there is one.
            restart: Delete an unfinished run.
        """
        try:
            is_ours = self._is_ours()
            if is_ours:
                self.folder.mkdir(exist_ok=True)
                self._take_lock()
        except OSError as error:
            raise LindaError(f"cannot write to {self.folder.parent}: {os_reason(error)}") from error
        if not is_ours:
            raise LindaError(f"{self.folder} exists and is not the journal of a run; move it, or give another --output")
        try:
            self._begin(run, resume, restart)
        except BaseException:
            self.release()
            raise

    def _begin(self, run: dict[str, Any], resume: bool, restart: bool) -> None:
        if restart:
            self._empty()
        if not self._run.exists():  # a new journal, or one that was being removed
            self._empty()
            with atomic_writer(self._run) as file:
                file.write(json.dumps(run, indent=2) + "\n")
            return
        if not resume:
            raise LindaError(
                f"found an unfinished run ({self.folder}, {self.rows_done():,} rows done); "
                "continue it with --resume, or start over with --restart"
            )
        self._check_same(run)
        self._drop_incomplete_line()

    def _is_ours(self) -> bool:
        """Whether the folder does not exist, is empty, or belongs to an earlier run."""
        if not self.folder.exists():
            return True
        return self.folder.is_dir() and ((self.folder / "lock").is_file() or not any(self.folder.iterdir()))

    def append(self, chunk: Chunk) -> None:
        """Append a chunk. It is on disk when this returns."""
        line = json.dumps({**vars(chunk), "tally": vars(chunk.tally)})
        with self._chunks.open("ab") as file:
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def chunks(self) -> Iterator[Chunk]:
        """The finished chunks, in plan order."""
        if not self._chunks.exists():
            return
        with self._chunks.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):  # the last line may be incomplete
                    try:
                        chunk = _chunk(json.loads(line))
                    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                        raise LindaError(
                            f"{self._chunks}, line {number} is damaged ({reason(error)}); start over with --restart"
                        ) from error
                    yield chunk

    def rows_done(self) -> int:
        """Number of finished plan rows."""
        return max((chunk.stop for chunk in self.chunks()), default=0)

    def remove(self) -> None:
        """Delete the journal of a finished run. run.json is deleted first: without it, the rest is ignored."""
        self._empty()
        (self.folder / "lock").unlink(missing_ok=True)
        self.release()
        self.folder.rmdir()

    def give_up(self) -> None:
        """Close the journal of a failed run. It stays for --resume, unless there is nothing to resume."""
        if self._run.exists() and not self.teacher.exists() and not self.rows_done():
            self.remove()
        self.release()

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _empty(self) -> None:
        for path in (self._run, self.input, self.neighbours, self._chunks):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.teacher, ignore_errors=True)
        for part in self.folder.glob(PART_PATTERN):  # of a killed run
            shutil.rmtree(part) if part.is_dir() else part.unlink()

    def _check_same(self, run: dict[str, Any]) -> None:
        begun = read_json_object(self._run)
        run = json.loads(json.dumps(run))  # tuples are lists in a file
        for name in {**begun, **run}:
            if begun.get(name) != run.get(name):
                raise LindaError(
                    f"the unfinished run in {self.folder} has {name} {begun.get(name)!r}, this one {run.get(name)!r}; "
                    "repeat its command with --resume, or start over with --restart"
                )

    def _drop_incomplete_line(self) -> None:
        if not self._chunks.exists():
            return
        with self._chunks.open("r+b") as file:
            complete = 0
            for line in file:
                if line.endswith(b"\n"):
                    complete += len(line)
            file.truncate(complete)

    def _take_lock(self) -> None:
        """Prevent two runs on one journal. The system releases the lock of a killed process."""
        try:
            import fcntl
        except ImportError:  # not on Windows
            return
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise LindaError(f"another process is writing this output ({self.folder}); wait for it to finish") from None
        self._lock = lock


def _chunk(line: dict[str, Any]) -> Chunk:
    rows = [NewRow(tuple(example), *rest) for example, *rest in line["rows"]]
    tally = line["tally"]
    stopped, left_out = Counter(tally["stopped"]), Counter(tally["left_out"])
    labels = Counter({int(code): count for code, count in tally["labels"].items()})  # JSON keys are strings
    return Chunk(line["start"], line["stop"], rows, Tally(tally["planned"], tally["made"], stopped, left_out, labels))
