"""What a run on files has done so far, in a folder beside its output: `OUT.journal`.

    run.json        the settings and the input that the run belongs to
    input.arrow     the input, so that any row can be read by its number
    neighbours.npy  the rows most alike to each, if partners are the nearest
    teacher/        the teacher, if one was fine-tuned
    chunks.jsonl    one line for every stretch of the plan that is finished, in plan order

A line is on the disk before the next stretch begins. A line cut off by a kill has no end, and is dropped.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from linda.augmentation.generation import Chunk, NewRow, Tally
from linda.errors import LindaError
from linda.files.textio import atomic_writer


class Journal:
    """The journal of one output. `begin` it before anything else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.input = folder / "input.arrow"
        self.neighbours = folder / "neighbours.npy"
        self.teacher = folder / "teacher"
        self._run = folder / "run.json"
        self._chunks = folder / "chunks.jsonl"
        self._lock: int | None = None

    @classmethod
    def beside(cls, output: Path) -> "Journal":
        return cls(output.with_name(output.name + ".journal"))

    def begin(self, run: dict[str, Any], *, resume: bool, restart: bool) -> None:
        """Starts a journal for this run, or goes on with the one that a run with the same values left."""
        try:
            self.folder.mkdir(exist_ok=True)
            self._take_lock()
        except OSError as error:
            raise LindaError(f"cannot write to {self.folder.parent}: {(error.strerror or '').lower()}") from error
        try:
            self._begin(run, resume, restart)
        except BaseException:
            self.release()
            raise

    def _begin(self, run: dict[str, Any], resume: bool, restart: bool) -> None:
        if restart:
            self._empty()
        if not self._run.exists():  # nothing was begun here, or the journal was being removed
            self._empty()
            with atomic_writer(self._run) as file:
                file.write(json.dumps(run, indent=2, ensure_ascii=False) + "\n")
            return
        if not resume:
            raise LindaError(
                f"an unfinished run is there ({self.folder}, {self.rows_done():,} rows done); "
                "go on with --resume, or begin anew with --restart"
            )
        self._check_same(run)
        self._drop_cut_off_line()

    def append(self, chunk: Chunk) -> None:
        """The chunk is on the disk when this returns."""
        line = json.dumps({**vars(chunk), "tally": vars(chunk.tally)})
        with self._chunks.open("ab") as file:
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def chunks(self) -> Iterator[Chunk]:
        """What is finished, in plan order, one chunk at a time."""
        if not self._chunks.exists():
            return
        with self._chunks.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):  # the last one may be cut off
                    yield _chunk(json.loads(line))

    def rows_done(self) -> int:
        """Rows of the plan that are finished."""
        return max((chunk.stop for chunk in self.chunks()), default=0)

    def remove(self) -> None:
        """The run is over. run.json goes first: without it the rest is known to be worthless."""
        self._empty()
        (self.folder / "lock").unlink(missing_ok=True)
        self.release()
        self.folder.rmdir()

    def give_up(self) -> None:
        """The run failed: what is worth keeping stays for --resume."""
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
            path.with_name(path.name + ".part").unlink(missing_ok=True)
        for folder in (self.teacher, self.teacher.with_name("teacher.part")):
            shutil.rmtree(folder, ignore_errors=True)

    def _check_same(self, run: dict[str, Any]) -> None:
        begun: dict[str, Any] = json.loads(self._run.read_text(encoding="utf-8"))
        run = json.loads(json.dumps(run))  # tuples are lists in a file
        for name in {**begun, **run}:
            if begun.get(name) != run.get(name):
                raise LindaError(
                    f"the unfinished run in {self.folder} has {name} {begun.get(name)!r}, this one {run.get(name)!r}; "
                    "repeat its command with --resume, or begin anew with --restart"
                )

    def _drop_cut_off_line(self) -> None:
        if not self._chunks.exists():
            return
        with self._chunks.open("r+b") as file:
            whole = 0
            for line in file:
                if line.endswith(b"\n"):
                    whole += len(line)
            file.truncate(whole)

    def _take_lock(self) -> None:
        """Two runs must not write one journal. The system frees the lock of a process that is killed."""
        try:
            import fcntl
        except ImportError:  # this system has no such locks
            return
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise LindaError(f"another process is at work on this output ({self.folder}); wait for it") from None
        self._lock = lock


def _chunk(line: dict[str, Any]) -> Chunk:
    rows = [NewRow(tuple(example), *rest) for example, *rest in line["rows"]]
    tally = line["tally"]
    return Chunk(
        line["start"],
        line["stop"],
        rows,
        Tally(
            planned=tally["planned"],
            made=tally["made"],
            stopped=Counter(tally["stopped"]),
            left_out=Counter(tally["left_out"]),
            labels=Counter({int(code): count for code, count in tally["labels"].items()}),
        ),
    )
