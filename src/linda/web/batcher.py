"""One thread owns the engine. Rows of concurrent callers are decoded together, and each caller gets its own results.

While one micro-batch is decoded, further rows are queued. The next batch takes rows of all waiting callers with equal
decoding settings in turn, so that a caller with many rows does not delay one with a single row.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from linda.interpolation.rows import Row, texts_of

Settings = tuple[tuple[str, Any], ...]  # decoding settings by name, sorted: equal ones can share a batch
Candidates = list[tuple[str, float | None]]  # the texts of a row and their scores, best first
Result = tuple[int, Candidates] | Exception  # the number of a row and its candidates, or why there are none

# Decodes rows with one group of settings. The callback is called between batches and may raise.
Mix = Callable[[Sequence[Row], dict[str, Any], Callable[[int], object]], Iterator[Candidates]]

# A micro-batch: enough rows to keep the engine busy, few enough that the next caller waits about a second.
_MAX_ROWS = 64
_MAX_CHARACTERS = 24_000

# Callers that were answered together often send their next requests together. So the next batch waits until as many
# rows are queued as last time, or no row has arrived for a small share of the duration of the last batch.
_QUIET_SECONDS, _QUIET_SHARE = 0.004, 0.03
_LONGEST_WAIT_SECONDS, _LONGEST_WAIT_SHARE = 0.02, 0.25


class QueueFullError(Exception):
    """Too many rows are waiting."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the server is busy; try again in {retry_after} s")
        self.retry_after = retry_after


class CancelledError(Exception):
    """The result is not needed any more."""


@dataclass(eq=False)
class _Ticket:
    """The rows of one caller that are not decoded yet."""

    rows: deque[tuple[int, Row]]
    settings: Settings
    put: Callable[[Result], object]
    cancelled: bool = False


@dataclass(eq=False)
class _Batch:
    settings: Settings
    members: list[tuple[_Ticket, int, Row]] = field(default_factory=list)

    @property
    def is_abandoned(self) -> bool:
        return all(ticket.cancelled for ticket, _, _ in self.members)


class Batcher:
    """Decodes rows for many concurrent callers. Must be closed."""

    def __init__(self, mix: Mix, waiting_rows: int) -> None:
        self._mix = mix
        self._waiting_rows = waiting_rows
        self._tickets: deque[_Ticket] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._rows_per_second = 20.0  # initial value until it is measured
        self._last_seconds = 0.0  # duration of the last batch
        self._last_rows = 1  # rows of the last batch and of those waiting then
        self._thread = threading.Thread(target=self._work, name="linda-engine", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread after the current batch; callers that still wait get a CancelledError."""
        with self._changed:
            self._is_closed = True
            left = list(self._tickets)
            self._tickets.clear()
            self._changed.notify_all()
        for ticket in left:
            ticket.put(CancelledError())
        self._thread.join()

    def submit(self, rows: Sequence[Row], settings: Settings) -> AsyncIterator[tuple[int, Candidates]]:
        """Queue rows; the returned iterator yields the number of a row and its candidates as they are finished.

        Closing the iterator drops the remaining rows. Raises QueueFullError if too many rows are waiting.
        """
        loop = asyncio.get_running_loop()
        results: asyncio.Queue[Result] = asyncio.Queue()

        def put(result: Result) -> None:
            loop.call_soon_threadsafe(results.put_nowait, result)

        return self._results(self._enqueue(rows, settings, put, bounded=True), results, len(rows))

    async def _results(
        self, ticket: _Ticket, results: asyncio.Queue[Result], count: int
    ) -> AsyncIterator[tuple[int, Candidates]]:
        try:
            for _ in range(count):
                result = await results.get()
                if isinstance(result, Exception):
                    raise result
                yield result
        finally:
            self._cancel(ticket)

    def mix(self, rows: Iterable[Row], settings: Settings) -> list[Candidates]:
        """Decode rows for a caller on another thread, which waits until all are done, and return them in order."""
        rows = list(rows)
        results: SimpleQueue[Result] = SimpleQueue()
        ticket = self._enqueue(rows, settings, results.put, bounded=False)
        found: dict[int, Candidates] = {}
        try:
            while len(found) < len(rows):
                result = results.get()
                if isinstance(result, Exception):
                    raise result
                found[result[0]] = result[1]
        finally:
            self._cancel(ticket)
        return [found[index] for index in range(len(rows))]

    def _enqueue(
        self, rows: Sequence[Row], settings: Settings, put: Callable[[Result], object], *, bounded: bool
    ) -> _Ticket:
        ticket = _Ticket(deque(enumerate(rows)), settings, put)
        with self._changed:
            if self._is_closed:
                raise CancelledError
            if bounded and self._waiting + len(rows) > self._waiting_rows:
                raise QueueFullError(retry_after=max(1, round(self._waiting / self._rows_per_second)))
            if rows:
                self._tickets.append(ticket)
                self._changed.notify_all()
        return ticket

    def _cancel(self, ticket: _Ticket) -> None:
        with self._changed:
            ticket.cancelled = True
            if ticket in self._tickets:
                self._tickets.remove(ticket)

    # --- the thread of the engine -----------------------------------------------------------------------------

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            begun = time.monotonic()
            self._decode(batch)
            self._last_seconds = max(time.monotonic() - begun, 1e-3)
            self._rows_per_second += 0.2 * (len(batch.members) / self._last_seconds - self._rows_per_second)

    def _next_batch(self) -> _Batch | None:
        with self._changed:
            while not self._tickets and not self._is_closed:
                self._changed.wait()
            quiet = max(_QUIET_SECONDS, _QUIET_SHARE * self._last_seconds)
            latest = time.monotonic() + max(_LONGEST_WAIT_SECONDS, _LONGEST_WAIT_SHARE * self._last_seconds)
            enough = min(self._last_rows, _MAX_ROWS)
            while not self._is_closed and self._waiting < enough and time.monotonic() < latest:
                if not self._changed.wait(quiet):
                    break
            if self._is_closed:
                return None
            self._last_rows = self._waiting
            return self._take() if self._tickets else _Batch(settings=())

    @property
    def _waiting(self) -> int:
        return sum(len(ticket.rows) for ticket in self._tickets)

    def _take(self) -> _Batch:
        """Take rows of all callers with the settings of the one that has waited longest, in turn."""
        batch = _Batch(self._tickets[0].settings)
        characters = 0
        sharing = deque(ticket for ticket in self._tickets if ticket.settings == batch.settings)
        while sharing and len(batch.members) < _MAX_ROWS and characters < _MAX_CHARACTERS:
            ticket = sharing.popleft()
            index, row = ticket.rows.popleft()
            batch.members.append((ticket, index, row))
            characters += sum(map(len, texts_of(row)))
            if ticket.rows:
                sharing.append(ticket)
        self._tickets = deque(ticket for ticket in self._tickets if ticket.rows)
        if self._tickets and self._tickets[0].settings == batch.settings:
            self._tickets.rotate(-1)  # next time, callers with other settings are first
        return batch

    def _decode(self, batch: _Batch) -> None:
        def check(_: int) -> None:
            if batch.is_abandoned:
                raise CancelledError

        if batch.is_abandoned:
            return
        rows = [row for _, _, row in batch.members]
        delivered = 0
        try:
            results = self._mix(rows, dict(batch.settings), check)
            for (ticket, index, _), candidates in zip(batch.members, results, strict=True):
                ticket.put((index, candidates))
                delivered += 1
        except CancelledError:
            return
        except Exception as error:  # the thread must survive, and the caller gets the error
            left = batch.members[delivered:]
            tickets = list(dict.fromkeys(ticket for ticket, _, _ in left))
            if len(tickets) == 1:
                tickets[0].put(error)
                return
            for own in tickets:  # a row of one caller must not make the others fail
                self._decode(_Batch(batch.settings, [member for member in left if member[0] is own]))
