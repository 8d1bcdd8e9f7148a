"""The finished chunks of one block, in the folder `_work/block-00000` of its run.

    neighbours.npy  the most similar rows of each row, for nearest partners
    chunks.jsonl    one line per finished chunk of the plan, in plan order

Each line is passed to the operating system before the next chunk begins, so a killed process loses no finished chunk.
It is synced to disk about once a second, in case of a power failure. An incomplete last line is dropped.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from linda.augmentation.pipeline import Chunk
from linda.augmentation.summary import Tally
from linda.augmentation.tables import NewRow
from linda.errors import LindaError, reason
from linda.files.locks import FileLock

_SYNC_SECONDS = 1.0


class Journal:
    """The journal of one block, a context manager: inside `with`, no other process can write it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.neighbours = folder / "neighbours.npy"
        self._chunks = folder / "chunks.jsonl"
        self._lock = FileLock(folder / "lock")
        self._synced = 0.0  # when the file was last written to disk

    def __enter__(self) -> "Journal":
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._lock.take():
            raise LindaError(f"another process is computing this block ({self.folder}); wait for it to finish")
        self._drop_incomplete_line()
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def append(self, chunk: Chunk) -> None:
        """Append a chunk. Not every chunk is synced: that would take longer than a fast method needs for a chunk."""
        line = json.dumps({**vars(chunk), "tally": vars(chunk.tally)})
        with self._chunks.open("ab") as file:
            file.write(line.encode() + b"\n")
            file.flush()
            if time.monotonic() - self._synced > _SYNC_SECONDS:
                os.fsync(file.fileno())
                self._synced = time.monotonic()

    def chunks(self) -> Iterator[Chunk]:
        """Yield the finished chunks, in plan order."""
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
        """Return the number of finished plan rows."""
        return max((chunk.stop for chunk in self.chunks()), default=0)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _drop_incomplete_line(self) -> None:
        if not self._chunks.exists():
            return
        with self._chunks.open("r+b") as file:
            file.truncate(sum(len(line) for line in file if line.endswith(b"\n")))


def _chunk(line: dict[str, Any]) -> Chunk:
    rows = [NewRow(tuple(example), *rest) for example, *rest in line["rows"]]
    return Chunk(line["start"], line["stop"], rows, Tally.from_json(line["tally"]))
