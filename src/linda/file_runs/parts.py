"""The folder of a run on files: one part per block, and a manifest.

    part-00017.parquet  originals and new rows of block 17; its metadata has the fingerprint of the run and counts
    _manifest.json      what the rows depend on (settings, input, model, version), and the blocks of the table
    _work/              deleted when all parts are complete
        input-00017.arrow   the rows of block 17
        rows-00017.npy      their numbers in the input, if it is shuffled
        block-00017/        the journal of block 17
        teacher/            the teacher, if one was fine-tuned

Readers of Parquet folders ignore names that begin with `_`. A part that exists is complete. Several machines may write
to the same folder: files appear only when they are complete, and a part is the same whichever machine writes it.
"""

import base64
import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from linda.augmentation.summary import Tally
from linda.errors import LindaError, os_reason, reason
from linda.file_runs.blocks import Block, BlockedTable
from linda.file_runs.journal import Journal
from linda.files.locks import FileLock
from linda.files.storage import Storage
from linda.files.textio import PART_PATTERN

_MANIFEST, _WORK, _LOCK = "_manifest.json", "_work", "_lock"
_METADATA = b"linda"


@dataclass(frozen=True)
class Manifest:
    """The description of a run, written when its input has been read."""

    run: dict[str, Any]  # everything that the rows depend on
    table: BlockedTable
    schema: pa.Schema  # of the output
    input_state: Any  # size and time of the input files, to recognize them without reading them

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self.run, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return {
            "fingerprint": self.fingerprint,
            "run": self.run,
            "input_state": self.input_state,
            "schema": base64.b64encode(self.schema.serialize()).decode(),
            **self.table.to_json(),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Manifest":
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(values["schema"])))
        return cls(values["run"], BlockedTable.from_json(values), schema, values["input_state"])


class PartsFolder:
    """The folder of one run. is_output: the user requested this folder of parts; otherwise it is removed at the end."""

    def __init__(self, folder: str | Path, *, is_output: bool = False) -> None:
        self.storage = Storage(folder)
        self.is_output = is_output
        self._is_own = False  # whether the folder is known to hold this run alone
        self._lock = None if self.storage.local is None else FileLock(self.storage.local / _LOCK)

    def __str__(self) -> str:
        return str(self.storage)

    # --- beginning and end -----------------------------------------------------------------------------------

    def take(self, *, shared: bool = False, wait: bool = False) -> None:
        """Prevent other processes from using the folder, except those that also share it."""
        if not self.try_to_take(shared=shared, wait=wait):
            raise LindaError(f"another process is writing this output ({self}); wait for it to finish")

    def try_to_take(self, *, shared: bool = False, wait: bool = False) -> bool:
        """Like `take`, but False if another process uses the folder. There are no locks on remote file systems."""
        if self._lock is None or self.storage.local is None:
            return True
        if not self.is_output and not self._is_journal(self.storage.local):
            raise LindaError(f"{self} exists and is not the journal of a run; move it, or give another --output")
        try:
            self.storage.local.mkdir(parents=self.is_output, exist_ok=True)
            return self._lock.take(shared=shared, wait=wait)
        except OSError as error:
            where = self.storage.local if self.is_output else self.storage.local.parent
            raise LindaError(f"cannot write to {where}: {os_reason(error)}") from error

    def share(self, is_ready: Callable[[], bool]) -> None:
        """Use the folder together with other processes, or alone if it is not ready and has to be prepared."""
        while True:
            self.take(shared=True, wait=True)  # waits for a process that prepares
            if is_ready():
                return
            self.release()
            if self.try_to_take():
                return
            time.sleep(0.1 + os.getpid() % 10 / 10)  # another process checked too: do not collide again

    @staticmethod
    def _is_journal(folder: Path) -> bool:
        """Whether the folder does not exist, is empty, or belongs to an earlier run."""
        try:
            names = {path.name for path in folder.iterdir()}
        except (FileNotFoundError, NotADirectoryError):
            return not folder.exists()
        return not names or bool(names & {_LOCK, _MANIFEST})

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def begin(self, run: dict[str, Any], *, resume: bool, restart: bool) -> Manifest | None:
        """Begin or continue a run.

        Args:
            run: Everything that the rows depend on.
            resume: Continue an unfinished run.
            restart: Delete an earlier run.

        Returns:
            The manifest of an earlier run with the same values; None for a new run.
        """
        self._check_empty_or_own()
        self._is_own = True
        if restart:
            self.empty()
        manifest = self.manifest()
        if manifest is None:  # new, or killed while its input was read
            self.empty()
            return None
        if not resume and not (self.is_output and not self.missing(manifest)):
            raise LindaError(
                f"found an unfinished run ({self}, {self.rows_done():,} rows done); "
                "continue it with --resume, or start over with --restart"
            )
        self._check_same(manifest, run)
        return manifest

    def give_up(self) -> None:
        """Close the folder of a failed run. It is kept for --resume, unless there is nothing to resume."""
        if self._is_own and not self._has_results():
            self.empty()
        self._close()

    def _has_results(self) -> bool:
        has_teacher = self.teacher is not None and self.teacher.exists()
        return has_teacher or any(map(_is_part, self.storage.names())) or self._rows_in_journals() > 0

    def finish(self) -> None:
        """Delete all files but the manifest and the parts."""
        for name in self.storage.names():
            if name.startswith((".part-", f".{_MANIFEST}")):  # left by a process that was killed while writing
                self.storage.remove(name)
        self.storage.remove(_WORK)
        self._close()

    def remove(self) -> None:
        """Delete the run."""
        self.empty()
        self._close()

    def _close(self) -> None:
        if self.storage.local is not None:
            (self.storage.local / _LOCK).unlink(missing_ok=True)
        self.release()
        if self.storage.local is not None:
            with suppress(OSError):  # it is not empty
                self.storage.local.rmdir()

    def empty(self) -> None:
        """Delete everything that belongs to a run, the manifest first: without it, the rest is ignored."""
        self.storage.remove(_MANIFEST)
        for name in self.storage.names():
            # PART_PATTERN matches an output that was being joined when its process was killed.
            if name.startswith(("part-", ".part-", f".{_MANIFEST}")) or fnmatch(name, PART_PATTERN):
                self.storage.remove(name)
        self.storage.remove(_WORK)

    # --- contents --------------------------------------------------------------------------------------------

    def manifest(self) -> Manifest | None:
        if not self.storage.exists(_MANIFEST):
            return None
        values = self.storage.read_json(_MANIFEST)
        try:
            return Manifest.from_json(values)
        except (KeyError, ValueError, TypeError, IndexError, pa.ArrowException) as error:
            raise LindaError(
                f"{self}/{_MANIFEST} is damaged ({reason(error)}); delete it, or start over with --restart"
            ) from error

    def write_manifest(self, manifest: Manifest) -> None:
        self.storage.write_json(_MANIFEST, manifest.to_json())

    @staticmethod
    def part(number: int) -> str:
        return f"part-{number:05}.parquet"

    @staticmethod
    def block_input(number: int) -> str:
        return f"{_WORK}/input-{number:05}.arrow"

    @property
    def work(self) -> Path | None:
        """The folder for temporary files; None on a remote file system."""
        if self.storage.local is None:
            return None
        work = self.storage.local / _WORK
        work.mkdir(exist_ok=True)
        return work

    def write_row_numbers(self, number: int, rows: NDArray[np.int64]) -> None:
        """Write the numbers that the rows of a block have in the input."""
        with self.storage.writing(_row_numbers(number)) as path, path.open("wb") as file:
            np.save(file, rows)

    def row_numbers(self, manifest: Manifest, block: Block) -> Sequence[int]:
        """Return the numbers that the rows of a block have in the input."""
        if not manifest.run["shuffle"]:
            return range(block.first_row, block.first_row + block.rows)
        with self.storage.reading(_row_numbers(block.number)) as path:
            numbers: list[int] = np.load(path).tolist()
        return numbers

    @property
    def teacher(self) -> Path | None:
        """Where the teacher is kept; None on a remote file system."""
        return None if self.storage.local is None else self.storage.local / _WORK / "teacher"

    def journal_folder(self, number: int) -> Path | None:
        """Return where the journal of a block is kept; None on a remote file system."""
        return None if self.storage.local is None else self.storage.local / _WORK / f"block-{number:05}"

    def missing(self, manifest: Manifest) -> list[int]:
        """Return the numbers of the blocks without a part."""
        known = set(self.storage.names())
        return [block.number for block in manifest.table.blocks if self.part(block.number) not in known]

    def rows_done(self) -> int:
        """Count the finished plan rows, of complete parts and of journals."""
        parts = (self._metadata(name)[1].planned for name in self.storage.names() if _is_part(name))
        return sum(parts) + self._rows_in_journals()

    def _rows_in_journals(self) -> int:
        if self.storage.local is None:
            return 0
        journals = (self.storage.local / _WORK).glob("block-*")
        return sum(Journal(folder).rows_done() for folder in journals)

    def write_part(self, manifest: Manifest, number: int, batches: Iterable[pa.RecordBatch], tally: Tally) -> None:
        """Write the part of a block.

        Args:
            manifest: The run.
            number: The block.
            batches: Its rows, with the schema of the manifest.
            tally: Its counts.
        """
        about = {"fingerprint": manifest.fingerprint, "block": number, "tally": vars(tally)}
        schema = manifest.schema.with_metadata({**manifest.schema.metadata, _METADATA: json.dumps(about)})
        with self.storage.writing(self.part(number)) as path, pq.ParquetWriter(path, schema) as writer:
            for batch in batches:
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))

    def tally(self, manifest: Manifest, numbers: Sequence[int]) -> Tally:
        """Add up the counts of complete parts. A missing part, or one of another run, is an error."""
        total = Tally()
        for number in numbers:
            name = self.part(number)
            if not self.storage.exists(name):
                raise LindaError(f"{self}/{name} is missing; {_computing(number)}")
            about, tally = self._metadata(name)
            if about["fingerprint"] != manifest.fingerprint:
                raise LindaError(
                    f"{self}/{name} belongs to a run with other input, settings, model or version; delete it, or start "
                    "over with --restart"
                )
            if about["block"] != number:
                raise LindaError(f"{self}/{name} holds block {about['block']}; delete it and {_computing(number)}")
            total += tally
        return total

    def read_parts(self, manifest: Manifest) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all parts in order, in the batches in which they were written."""
        for block in manifest.table.blocks:
            with self.storage.reading(self.part(block.number)) as path, self._damage_reported(block.number):
                file = pq.ParquetFile(path, pre_buffer=False)
                for number in range(file.num_row_groups):
                    for batch in file.read_row_group(number, use_threads=False).combine_chunks().to_batches():
                        yield pa.RecordBatch.from_arrays(batch.columns, schema=manifest.schema)

    @contextmanager
    def _damage_reported(self, number: int) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            if getattr(error, "errno", None) == errno.ENOSPC:
                raise
            name = self.part(number)
            raise LindaError(
                f"{self}/{name} is damaged ({reason(error)}); delete it and {_computing(number)}"
            ) from error

    def _metadata(self, name: str) -> tuple[dict[str, Any], Tally]:
        """Return what `write_part` wrote about a part, and its counts."""
        try:
            with self.storage.reading(name) as path:
                about = json.loads((pq.read_metadata(path).metadata or {})[_METADATA])
                return {name: about[name] for name in ("fingerprint", "block")}, Tally.from_json(about["tally"])
        except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
            raise LindaError(f"{self}/{name} is not a part of a run, or is damaged; delete it") from error

    def _check_empty_or_own(self) -> None:
        if not self.is_output or self.storage.exists(_MANIFEST):
            return
        foreign = [
            name for name in self.storage.names() if name != _LOCK and not name.startswith((".part-", f".{_MANIFEST}"))
        ]
        if foreign:
            raise LindaError(f"{self} is not empty ({foreign[0]}) and contains no run; give another folder")

    def _check_same(self, manifest: Manifest, run: dict[str, Any]) -> None:
        begun, run = manifest.run, json.loads(json.dumps(run))  # tuples are lists in a file
        for name in {**begun, **run}:
            if begun.get(name) != run.get(name):
                raise LindaError(
                    f"the unfinished run in {self} has {name} {begun.get(name)!r}, this one {run.get(name)!r}; "
                    "repeat its command with --resume, or start over with --restart"
                )


def _computing(number: int) -> str:
    """Say how to compute one block, for messages."""
    return f"compute it with --block-range {number}:{number + 1}"


def _row_numbers(number: int) -> str:
    return f"{_WORK}/rows-{number:05}.npy"


def _is_part(name: str) -> bool:
    return name.startswith("part-") and name.endswith(".parquet")
