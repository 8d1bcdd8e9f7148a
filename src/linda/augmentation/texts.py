"""Requests to texts: writing with retries, in one process or several.

The same request gives the same draft, in any process and in any batch.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from multiprocessing import active_children, get_context, parent_process
from traceback import format_exception

from linda.augmentation.gates import Gates, Seen
from linda.errors import LindaError
from linda.methods import AugmentationMethod
from linda.methods.protection import Protected
from linda.planning.examples import Example

# Counted like the name of a gate: protected words of the parents are missing.
PROTECTED = "protected"


@dataclass(frozen=True)
class TextRequest:
    """A row to be written: its parents, and the number of the first attempt."""

    first: Example
    second: Example | None  # None, like alpha, if the method does not mix
    alpha: float | None
    seed: int
    attempt: int = 0

    @property
    def is_between(self) -> bool:
        """Whether the ratio requires a text other than a parent."""
        return self.alpha is None or 0 < self.alpha < 1


@dataclass(frozen=True)
class Draft:
    """The result of a request: the first text that passed, or None, and the gates that rejected those before it."""

    example: Example | None
    attempt: int
    stopped_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Writer:
    """Writes texts with a method and checks each with the gates, except for duplicates.

    A rejected text is written again at most `retries` times, by `method.sampling` and with another seed. So is a text
    that lacks `protected` words of its parents.
    """

    method: AugmentationMethod
    gates: Gates
    retries: int
    protected: Protected = field(default_factory=Protected)

    def __call__(self, requests: Sequence[TextRequest]) -> list[Draft]:
        """One draft per request."""
        drafts: dict[int, Draft] = {}
        waiting = dict(enumerate(requests))
        stopped_by: list[tuple[str, ...]] = [()] * len(requests)
        while waiting:
            for number, request in list(waiting.items()):
                if request.attempt > self.retries:
                    drafts[number] = Draft(None, request.attempt, stopped_by[number])
                    del waiting[number]
            for number, example in self._write(waiting).items():
                request = waiting[number]
                gate = self.gates.rejected_by(example, request.first, request.second, request.is_between)
                if gate is None and not self._keeps_protected(example, request):
                    gate = PROTECTED
                if gate is None:
                    drafts[number] = Draft(example, request.attempt, stopped_by[number])
                    del waiting[number]
                else:
                    stopped_by[number] += (gate,)
                    waiting[number] = replace(request, attempt=request.attempt + 1)
        return [drafts[number] for number in range(len(requests))]

    def _keeps_protected(self, example: Example, request: TextRequest) -> bool:
        if not self.protected:
            return True
        parents = [request.first] if request.second is None else [request.first, request.second]
        columns = zip(example, *parents, strict=True)
        return all(self.protected.are_kept(text, sources) for text, *sources in columns)

    def _write(self, requests: Mapping[int, TextRequest]) -> dict[int, Example]:
        """One call to the method for all first attempts, and one for all retries."""
        written: dict[int, Example] = {}
        for again in (False, True):
            part = {number: request for number, request in requests.items() if (request.attempt > 0) == again}
            if part:
                method = self.method.sampling if again else self.method
                written.update(zip(part, _written_by(method, list(part.values())), strict=True))
        return written


def _written_by(method: AugmentationMethod, requests: Sequence[TextRequest]) -> list[Example]:
    """The two texts of a pair are written separately, with the same partner and ratio."""
    width = len(requests[0].first)
    cells = [(request, column) for request in requests for column in range(width)]
    first = [request.first[column] for request, column in cells]
    seeds = [_attempt_seed(request.seed, request.attempt, column) for request, column in cells]
    second = alpha = None
    if method.needs_partner:
        second = [request.second[column] for request, column in cells if request.second is not None]
        alpha = [request.alpha for request, _ in cells if request.alpha is not None]
    texts = method.texts(first, second, alpha, seeds)
    return [tuple(texts[start : start + width]) for start in range(0, len(texts), width)]


def _attempt_seed(seed: int, attempt: int, column: int) -> int:
    """The seed of the row for its first text, derived seeds for retries and for the second text."""
    if attempt == column == 0:
        return seed
    digest = blake2b(f"{seed} {attempt} {column}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little")


# --- one process, or several ----------------------------------------------------------------------------------

# Takes lists of requests; returns each list with its drafts, in the same order.
WriteAll = Callable[[Iterable[list[TextRequest]]], Iterator[tuple[list[TextRequest], list[Draft]]]]


@contextmanager
def write_here(writer: Writer) -> Iterator[WriteAll]:
    yield lambda lists: ((requests, writer(requests)) for requests in lists)


@contextmanager
def write_in_processes(make_writer: Callable[[], Writer], workers: int) -> Iterator[WriteAll]:
    """Start worker processes, each with its own writer. `make_writer` must be picklable."""
    executor = ProcessPoolExecutor(
        workers,
        mp_context=get_context("spawn"),  # a fork of a process that has used torch may hang
        initializer=_start_worker,
        initargs=(make_writer, max(1, (os.cpu_count() or 1) // workers)),
    )
    others = set(active_children())
    try:
        # One waiting list per worker: no worker idles, and memory is bounded.
        yield lambda lists: _in_order(executor, lists, ahead=2 * workers)
    except BrokenProcessPool as error:
        raise LindaError("a worker process died, possibly out of memory; use fewer workers") from error
    except BaseException:
        for worker in set(active_children()) - others:  # their work is of no use any more
            worker.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _in_order(
    executor: ProcessPoolExecutor, lists: Iterable[list[TextRequest]], ahead: int
) -> Iterator[tuple[list[TextRequest], list[Draft]]]:
    waiting: deque[tuple[list[TextRequest], Future[list[Draft]]]] = deque()
    for requests in lists:
        waiting.append((requests, executor.submit(_work, requests)))
        if len(waiting) >= ahead:
            first, future = waiting.popleft()
            yield first, future.result()
    for first, future in waiting:
        yield first, future.result()


# Set in worker processes. The writer is created by the first request, so that its errors reach the parent process.
_make_writer: Callable[[], Writer]


def _start_worker(make_writer: Callable[[], Writer], threads: int) -> None:
    global _make_writer
    threading.Thread(target=end_with_parent, daemon=True).start()
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # torch reads it when it is first imported
    _make_writer = cache(make_writer)


def _work(requests: list[TextRequest]) -> list[Draft]:
    """The drafts. The parent would wait forever for an error that cannot be unpickled, so errors are converted."""
    try:
        return _make_writer()(requests)
    except LindaError as error:
        raise LindaError(str(error)) from None
    except Exception as error:
        raise RuntimeError(f"in a worker: {''.join(format_exception(error))}") from None


def end_with_parent() -> None:
    """Exit when the parent process dies. Otherwise the workers of a killed run would wait forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


# --- duplicates -----------------------------------------------------------------------------------------------


def without_duplicates(
    requests: list[TextRequest], drafts: list[Draft], write_all: WriteAll, seen: Seen
) -> list[Draft]:
    """Replace duplicates by later attempts, as if the rows were written one by one.

    Which attempts are needed is found by iteration: go through all rows in order with the attempts known so far, write
    the missing ones together, and repeat until none is missing.

    Args:
        requests: The requested rows.
        drafts: The draft of each request.
        write_all: Writes further attempts.
        seen: All rows before these. The rows that are kept are added.

    Returns:
        The final draft of each request.

    Example:
        drafts = without_duplicates(requests, writer(requests), write_all, seen)
    """
    known = [[draft] for draft in drafts]
    while True:
        settled: list[Draft] = []
        missing: list[int] = []
        fresh = Seen()
        for number, attempts in enumerate(known):
            draft = _first_fresh(attempts, seen, fresh)
            if draft.example is not None:
                fresh.add(draft.example)
            elif attempts[-1].example is not None:
                missing.append(number)
            settled.append(draft)
        if not missing:
            seen.update(fresh)
            return settled
        again = [replace(requests[number], attempt=known[number][-1].attempt + 1) for number in missing]
        _, more = next(write_all([again]))
        for number, draft in zip(missing, more, strict=True):
            known[number].append(draft)


def _first_fresh(attempts: Sequence[Draft], seen: Seen, fresh: Seen) -> Draft:
    stopped_by: tuple[str, ...] = ()
    for draft in attempts:
        stopped_by += draft.stopped_by
        if draft.example is not None:
            if draft.example not in seen and draft.example not in fresh:
                return Draft(draft.example, draft.attempt, stopped_by)
            stopped_by += ("duplicates",)
    return Draft(None, attempts[-1].attempt, stopped_by)
