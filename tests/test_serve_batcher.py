"""Micro-batches: sharing, order, and the effect of a cancelled or failed caller on others."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from linda.web.batcher import Batcher, CancelledError, Candidates, QueueFullError, Row

SETTINGS = (("beams", 4),)
OTHER = (("beams", 1),)


class Echo:
    """Decodes by joining the texts. It can be held to let callers queue up, and remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.free = threading.Event()
        self.free.set()

    def __call__(
        self, rows: Sequence[Row], settings: dict[str, Any], on_progress: Callable[[int], object]
    ) -> Iterator[Candidates]:
        self.batches.append([a for a, *_ in rows])
        self.free.wait()
        on_progress(len(rows))
        for a, b, _, _ in rows:
            if a == "bad":
                raise RuntimeError("cannot be decoded")
            yield [(f"{a}+{b}", -0.5)]


def rows(*names: str) -> list[Row]:
    return [(name, "b", 0.5, 0) for name in names]


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def batcher(echo: Echo) -> Iterator[Batcher]:
    batcher = Batcher(echo, waiting_rows=100)
    yield batcher
    echo.free.set()
    batcher.close()


async def collected(results: Any) -> dict[int, str]:
    return {index: candidates[0][0] async for index, candidates in results}


async def busy(batcher: Batcher, echo: Echo) -> "asyncio.Task[dict[int, str]]":
    """A caller whose row is being decoded until `echo.free` is set."""
    echo.free.clear()
    task = asyncio.create_task(collected(batcher.submit(rows("first"), SETTINGS)))
    while not echo.batches:
        await asyncio.sleep(0.005)
    return task


def test_callers_that_wait_together_share_a_batch_in_turn(batcher: Batcher, echo: Echo) -> None:
    async def go() -> None:
        first = await busy(batcher, echo)
        many = batcher.submit(rows("m1", "m2", "m3"), SETTINGS)
        single = batcher.submit(rows("s1"), SETTINGS)
        other = batcher.submit(rows("o1"), OTHER)
        echo.free.set()
        assert await first == {0: "first+b"}
        assert await collected(single) == {0: "s1+b"}
        assert await collected(many) == {0: "m1+b", 1: "m2+b", 2: "m3+b"}
        assert await collected(other) == {0: "o1+b"}

    asyncio.run(go())
    assert echo.batches == [["first"], ["m1", "s1", "m2", "m3"], ["o1"]]


def test_a_long_list_does_not_hold_up_other_settings(batcher: Batcher, echo: Echo) -> None:
    async def go() -> None:
        first = await busy(batcher, echo)
        long = batcher.submit(rows(*[f"l{number}" for number in range(90)]), SETTINGS)
        other = batcher.submit(rows("o1"), OTHER)
        echo.free.set()
        await asyncio.gather(first, collected(long), collected(other))

    asyncio.run(go())
    assert [len(batch) for batch in echo.batches] == [1, 64, 1, 26]


def test_what_a_caller_left_is_not_decoded(batcher: Batcher, echo: Echo) -> None:
    async def go() -> None:
        first = await busy(batcher, echo)
        leaving = asyncio.create_task(collected(batcher.submit(rows("gone"), SETTINGS)))
        staying = asyncio.create_task(collected(batcher.submit(rows("here"), SETTINGS)))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        echo.free.set()
        assert await staying == {0: "here+b"}
        await first

    asyncio.run(go())
    assert echo.batches == [["first"], ["here"]]


def test_a_batch_that_all_have_left_is_given_up(batcher: Batcher, echo: Echo) -> None:
    async def go() -> None:
        first = await busy(batcher, echo)
        first.cancel()
        await asyncio.wait([first])
        echo.free.set()
        assert await collected(batcher.submit(rows("next"), SETTINGS)) == {0: "next+b"}

    asyncio.run(go())


def test_a_failure_is_told_to_the_caller_whose_row_it_is(batcher: Batcher, echo: Echo) -> None:
    async def go() -> None:
        first = await busy(batcher, echo)
        good = asyncio.create_task(collected(batcher.submit(rows("g1", "g2"), SETTINGS)))
        bad = asyncio.create_task(collected(batcher.submit(rows("bad"), SETTINGS)))
        await asyncio.sleep(0)
        echo.free.set()
        await first
        assert await good == {0: "g1+b", 1: "g2+b"}
        with pytest.raises(RuntimeError, match="cannot be decoded"):
            await bad
        assert await collected(batcher.submit(rows("later"), SETTINGS)) == {0: "later+b"}

    asyncio.run(go())


def test_a_full_queue_refuses_and_says_when_to_come_back(batcher: Batcher, echo: Echo) -> None:
    async def go() -> None:
        first = await busy(batcher, echo)
        waiting = batcher.submit(rows(*["w"] * 99), SETTINGS)
        with pytest.raises(QueueFullError) as refused:
            batcher.submit(rows("x", "y"), SETTINGS)
        assert refused.value.retry_after >= 1
        echo.free.set()
        await asyncio.gather(first, collected(waiting))
        assert await collected(batcher.submit(rows("x", "y"), SETTINGS)) == {0: "x+b", 1: "y+b"}

    asyncio.run(go())


def test_a_thread_gets_its_rows_in_order(batcher: Batcher) -> None:
    found = batcher.mix(rows("one", "two", "three"), SETTINGS)
    assert [candidates[0][0] for candidates in found] == ["one+b", "two+b", "three+b"]
    assert batcher.mix([], SETTINGS) == []


def test_closing_tells_those_that_wait(echo: Echo) -> None:
    batcher = Batcher(echo, waiting_rows=100)
    failures: list[Exception] = []

    def wait(name: str) -> None:
        try:
            batcher.mix(rows(name), SETTINGS)
        except CancelledError as error:
            failures.append(error)

    echo.free.clear()
    threads = [threading.Thread(target=wait, args=(name,)) for name in ("running", "waiting")]
    threads[0].start()
    while not echo.batches:
        time.sleep(0.005)
    threads[1].start()
    closing = threading.Thread(target=batcher.close)
    closing.start()
    threads[1].join(timeout=5)
    echo.free.set()
    for thread in (*threads, closing):
        thread.join(timeout=5)
        assert not thread.is_alive()
    assert len(failures) == 1
    with pytest.raises(CancelledError):
        batcher.mix(rows("late"), SETTINGS)
