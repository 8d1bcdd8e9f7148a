"""Shuffle a table, in memory that does not grow with the table.

Every row is written to one of 64 files at random, and each file is then shuffled: together this is a uniformly random
order of the whole table (Rao 1961, Sandelius 1962). A file that does not fit in memory is split again.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa

from linda.files.tables import BLOCK

MAX_BYTES = 64 * 2**20  # of rows in memory; while they are shuffled, there is a second copy
_FILES = 64
_STREAM = 0x5F1E  # arbitrary: makes these random numbers independent of others with the same seed


def shuffled(
    batches: Iterable[pa.RecordBatch], seed: int, folder: Path | None = None, max_bytes: int = MAX_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in a random order that depends only on the seed and the rows.

    Args:
        batches: The rows, in batches of one schema.
        seed: Seed of the order.
        folder: Folder for temporary files, which are about as large as the table; default: that of the system.
        max_bytes: Size of the rows to hold in memory.

    Yields:
        Batches with an additional last column: the number of each row in the input.

    Example:
        for batch in shuffled(read_files(files, ["text"]), seed=7):
            numbers = batch.column(batch.num_columns - 1)
    """
    with tempfile.TemporaryDirectory(prefix="shuffle-", dir=folder) as name:
        yield from _shuffled(_numbered(batches), (seed,), Path(name), max_bytes)


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in batches:
        numbers = pa.array(np.arange(start, start + len(batch)))
        schema = batch.schema.append(pa.field("row", pa.int64()))
        yield pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=schema)
        start += len(batch)


def _shuffled(
    batches: Iterator[pa.RecordBatch], seeds: tuple[int, ...], folder: Path, max_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Shuffle rows; `seeds`: the seed of the order, and the numbers of the nested files that contain these rows."""
    held, fit = _hold(batches, max_bytes)
    random = np.random.default_rng([_STREAM, *seeds])
    if fit:
        order = random.permutation(len(held))
        for start in range(0, len(held), BLOCK):
            yield from held.take(pa.array(order[start : start + BLOCK])).combine_chunks().to_batches()
        return
    own = folder / "-".join(map(str, seeds))
    own.mkdir()
    written: dict[int, pa.RecordBatchStreamWriter] = {}  # only files that have rows
    with ExitStack() as opened:
        while len(held):
            chosen = random.integers(_FILES, size=len(held))
            for number in np.unique(chosen).tolist():
                if number not in written:
                    sink = opened.enter_context(pa.OSFile(str(own / f"{number:02}.arrow"), "wb"))
                    written[number] = opened.enter_context(pa.ipc.new_stream(sink, held.schema))
                rows = held.take(pa.array(np.flatnonzero(chosen == number)))
                written[number].write_table(rows.combine_chunks())
            held, _ = _hold(batches, max_bytes)
    for number in sorted(written):
        path = own / f"{number:02}.arrow"
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
            yield from _shuffled(iter(stream), (*seeds, number), folder, max_bytes)
        path.unlink()
    own.rmdir()


def _hold(batches: Iterator[pa.RecordBatch], max_bytes: int) -> tuple[pa.Table, bool]:
    """Return rows until they exceed `max_bytes`, and whether these are all and fit. A single row always fits."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > max_bytes and sum(map(len, held)) > 1:
            return pa.Table.from_batches(held), False
    return pa.Table.from_batches(held) if held else pa.table({}), True
