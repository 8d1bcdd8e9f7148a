"""What a run on files has done so far, in a folder beside its output: `.OUT.linda-journal`.

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
from linda.errors import LindaError, os_reason, reason
from linda.files.jsonfile import read_json_object
from linda.files.textio import PART_PATTERN, atomic_writer


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
        return cls(output.with_name(f".{output.name}.linda-journal"))  # a name that is nobody else's

    def begin(self, run: dict[str, Any], *, resume: bool, restart: bool) -> None:
        """Starts a journal for this run, or goes on with the one that a run with the same values left."""
        try:
            is_ours = self._is_ours()
            if is_ours:
                self.folder.mkdir(exist_ok=True)
                self._take_lock()
        except OSError as error:
            raise LindaError(f"cannot write to {self.folder.parent}: {os_reason(error)}") from error
        if not is_ours:
            raise LindaError(f"{self.folder} is there and is no journal of a run; move it, or give another --output")
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

    def _is_ours(self) -> bool:
        """Whether the folder is not there, empty, or of an earlier run."""
        if not self.folder.exists():
            return True
        return self.folder.is_dir() and ((self.folder / "lock").is_file() or not any(self.folder.iterdir()))

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
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):  # the last one may be cut off
                    try:
                        yield _chunk(json.loads(line))
                    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                        raise LindaError(
                            f"{self._chunks}, line {number}: damaged ({reason(error)}); begin anew with --restart"
                        ) from error

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
        shutil.rmtree(self.teacher, ignore_errors=True)
        for part in self.folder.glob(PART_PATTERN):  # of a run that was killed
            shutil.rmtree(part) if part.is_dir() else part.unlink()

    def _check_same(self, run: dict[str, Any]) -> None:
        begun = read_json_object(self._run)
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
