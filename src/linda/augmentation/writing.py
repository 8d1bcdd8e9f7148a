"""Tasks become texts: what a worker does, and how many of them work side by side.

The same task gives the same draft, in any process and whatever else is written with it.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from multiprocessing import active_children, get_context, parent_process
from traceback import format_exception

from linda.augmentation.gates import Example, Gates
from linda.augmenters import Augmenter
from linda.errors import LindaError


@dataclass(frozen=True)
class Task:
    """One row to be written: its parents, and the number of the attempt to begin with."""

    first: Example
    second: Example | None  # None and no alpha: the method changes one text, it mixes none
    alpha: float | None
    seed: int
    attempt: int = 0

    @property
    def is_between(self) -> bool:
        """Whether something other than a parent itself is asked for."""
        return self.alpha is None or 0 < self.alpha < 1


@dataclass(frozen=True)
class Draft:
    """What came of a task: the first text that passed, or None; and the gates that stopped those before it."""

    example: Example | None
    attempt: int
    stopped_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Writer:
    """Writes texts with a method and judges each by itself.

    What a gate stops is written again at most `retries` times: by `method.sampling` where the method has it (the
    same method, with random draws), else by the method itself with another seed.
    """

    method: Augmenter
    gates: Gates
    retries: int

    def __call__(self, tasks: Sequence[Task]) -> list[Draft]:
        """A draft for each task."""
        drafts: dict[int, Draft] = {}
        stopped_by: list[tuple[str, ...]] = [()] * len(tasks)
        current = list(tasks)
        while len(drafts) < len(tasks):
            for number, task in enumerate(current):
                if number not in drafts and task.attempt > self.retries:
                    drafts[number] = Draft(None, task.attempt, stopped_by[number])
            waiting = [number for number in range(len(tasks)) if number not in drafts]
            for number, example in zip(waiting, self._write([current[n] for n in waiting]), strict=True):
                task = current[number]
                gate = self.gates.rejected_by(example, task.first, task.second, task.is_between)
                if gate is None:
                    drafts[number] = Draft(example, task.attempt, stopped_by[number])
                else:
                    stopped_by[number] += (gate,)
                    current[number] = replace(task, attempt=task.attempt + 1)
        return [drafts[number] for number in range(len(tasks))]

    def _write(self, tasks: Sequence[Task]) -> list[Example]:
        """All first attempts in one call to the method, all others in another."""
        written: dict[int, Example] = {}
        for again in (False, True):
            part = [number for number, task in enumerate(tasks) if (task.attempt > 0) == again]
            method = getattr(self.method, "sampling", self.method) if again else self.method
            if part:
                examples = _written_by(method, [tasks[number] for number in part])
                written.update(zip(part, examples, strict=True))
        return [written[number] for number in range(len(tasks))]


def _written_by(method: Augmenter, tasks: Sequence[Task]) -> list[Example]:
    """The columns of a pair task are written separately, with the same partner and ratio."""
    width = len(tasks[0].first)
    cells = [(task, column) for task in tasks for column in range(width)]
    first = [task.first[column] for task, column in cells]
    seeds = [_attempt_seed(task.seed, task.attempt, column) for task, column in cells]
    second = alpha = None
    if method.needs_partner:
        second = [task.second[column] for task, column in cells if task.second is not None]
        alpha = [task.alpha for task, _ in cells if task.alpha is not None]
    texts = method.texts(first, second, alpha, seeds)
    return [tuple(texts[start : start + width]) for start in range(0, len(texts), width)]


def _attempt_seed(seed: int, attempt: int, column: int) -> int:
    """The row's own seed first; others for its next attempts and for its second text."""
    if attempt == column == 0:
        return seed
    digest = blake2b(f"{seed} {attempt} {column}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little")


# --- one process, or several ----------------------------------------------------------------------------------

# Lists of tasks in; each comes out with its drafts, in the same order.
WriteAll = Callable[[Iterable[list[Task]]], Iterator[tuple[list[Task], list[Draft]]]]


@contextmanager
def write_here(writer: Writer) -> Iterator[WriteAll]:
    yield lambda lists: ((tasks, writer(tasks)) for tasks in lists)


@contextmanager
def write_in_processes(make_writer: Callable[[], Writer], workers: int) -> Iterator[WriteAll]:
    """`workers` processes, each with a writer of its own. `make_writer` is sent to them: a function of a module, or a
    `functools.partial` of one."""
    executor = ProcessPoolExecutor(
        workers,
        mp_context=get_context("spawn"),  # a fork of a process that has used torch may hang
        initializer=_start_worker,
        initargs=(make_writer, max(1, (os.cpu_count() or 1) // workers)),
    )
    others = set(active_children())
    try:
        # As many lists wait as are being written: no worker idles, and memory is bounded.
        yield lambda lists: _in_order(executor, lists, ahead=2 * workers)
    except BrokenProcessPool as error:
        raise LindaError("a worker process died, perhaps for want of memory; use fewer workers") from error
    except BaseException:
        for worker in set(active_children()) - others:  # what they are at is of no use any more
            worker.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _in_order(
    executor: ProcessPoolExecutor, lists: Iterable[list[Task]], ahead: int
) -> Iterator[tuple[list[Task], list[Draft]]]:
    waiting: deque[tuple[list[Task], Future[list[Draft]]]] = deque()
    for tasks in lists:
        waiting.append((tasks, executor.submit(_work, tasks)))
        if len(waiting) >= ahead:
            first, future = waiting.popleft()
            yield first, future.result()
    for first, future in waiting:
        yield first, future.result()


# Of this process, if it is a worker. The writer is made with the first task, so that an error in making it travels
# back like any other.
_make_writer: Callable[[], Writer]


def _start_worker(make_writer: Callable[[], Writer], threads: int) -> None:
    global _make_writer
    threading.Thread(target=end_with_parent, daemon=True).start()
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # torch reads it when it is first imported
    _make_writer = cache(make_writer)


def _work(tasks: list[Task]) -> list[Draft]:
    """The drafts. For an error that cannot be sent the parent would wait for ever: each is sent as one that can."""
    try:
        return _make_writer()(tasks)
    except LindaError as error:
        raise LindaError(str(error)) from None
    except Exception as error:
        raise RuntimeError(f"in a worker: {''.join(format_exception(error))}") from None


def end_with_parent() -> None:
    """A killed parent tells nobody: its workers would wait for the next task for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
