"""A table in an Arrow file, with access to rows by number, in memory that does not grow with the table.

Blocks are small and the file is not memory-mapped: reading one row costs a few kilobytes.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from linda.files.tables import BLOCK, column_values
from linda.files.textio import atomic_path

_SPOOL_BLOCK = 64  # rows per block, the unit of reading


def write_spool(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write batches of any size to a file for `Spool`."""
    with atomic_path(path) as part, pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for block in cut(batches, _SPOOL_BLOCK):
            writer.write_batch(pa.concat_batches(list(block)))


def cut(batches: Iterable[pa.RecordBatch], block_rows: int) -> Iterator[Iterator[pa.RecordBatch]]:
    """Regroup batches into blocks of `block_rows` rows. Consume the batches of a block before the next block."""
    source, waiting = iter(batches), deque[pa.RecordBatch]()

    def one_block() -> Iterator[pa.RecordBatch]:
        missing = block_rows
        while missing and (batch := waiting.popleft() if waiting else next(source, None)) is not None:
            if len(batch) > missing:
                waiting.append(batch.slice(missing))
                batch = batch.slice(0, missing)
            missing -= len(batch)
            yield batch

    while True:
        if not waiting:
            if (batch := next(source, None)) is None:
                return
            waiting.append(batch)
        yield one_block()


class Spool:
    """A table in a file written by `write_spool`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._readers: dict[tuple[str, ...], Any] = {}
        everything = self._reader(())
        self.schema: pa.Schema = everything.schema
        self.columns: list[str] = self.schema.names
        self._blocks: int = everything.num_record_batches
        last = len(everything.get_batch(self._blocks - 1)) if self._blocks else 0
        self._length = max(0, self._blocks - 1) * _SPOOL_BLOCK + last

    def __len__(self) -> int:
        return self._length

    def fetch(self, column: str, rows: Sequence[int]) -> list[Any]:
        reader = self._reader((column,))
        numbers = {row // _SPOOL_BLOCK for row in rows}
        blocks = {number: column_values(reader.get_batch(number), column) for number in numbers}
        return [blocks[row // _SPOOL_BLOCK][row % _SPOOL_BLOCK] for row in rows]

    def scan(self, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        reader = self._reader(tuple(columns))
        for number in range(self._blocks):
            batch = reader.get_batch(number)
            yield from zip(*(column_values(batch, column) for column in columns), strict=True)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all columns of all rows, in blocks of a suitable size for writing."""
        reader = self._reader(())
        step = BLOCK // _SPOOL_BLOCK
        for start in range(0, self._blocks, step):
            numbers = range(start, min(start + step, self._blocks))
            yield pa.concat_batches([reader.get_batch(number) for number in numbers])

    def _reader(self, columns: tuple[str, ...]) -> Any:
        """Open a reader of these columns, or of all if none are given. Other columns are not read."""
        if columns not in self._readers:
            numbers = sorted(self.schema.get_field_index(column) for column in columns)
            options = pa.ipc.IpcReadOptions(included_fields=numbers, use_threads=False)
            self._readers[columns] = pa.ipc.open_file(pa.OSFile(str(self._path)), options=options)
        return self._readers[columns]
