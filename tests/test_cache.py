"""Costly results in a file that processes share."""

import multiprocessing
from collections.abc import Sequence
from pathlib import Path

import pytest

from linda.errors import LindaError
from linda.files.cache import CacheFile, cache_key
from linda.methods import AugmentationMethod
from linda.methods.cached import CachedMethod


def _fill(path: Path, first: int) -> None:
    cache = CacheFile(path)
    for number in range(first, first + 20):
        cache.put({cache_key(number): str(number).encode()})


def test_two_processes_write_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "shared.cache"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fill, args=(path, first)) for first in (0, 10)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    keys = [cache_key(number) for number in range(1000)]
    assert CacheFile(path).get(keys) == {cache_key(number): str(number).encode() for number in range(30)}


def test_keys_differ_with_every_part() -> None:
    keys = [cache_key("a", "b"), cache_key("ab"), cache_key("a", "b", None), cache_key("a", ["b"]), cache_key("a", 1)]
    assert len(set(keys)) == len(keys)


def test_another_file_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a cache\n" * 100)
    with pytest.raises(LindaError, match=r"notes.txt cannot be used as a cache .*; give a new file, or delete it"):
        CacheFile(tmp_path / "notes.txt")


class _Counting(AugmentationMethod):
    name, needs_partner = "splice", True

    def __init__(self, calls: list[str], sign: str = "+") -> None:
        self.calls, self.sign = calls, sign

    @property
    def sampling(self) -> "_Counting":
        return _Counting(self.calls, "~")

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        made = [f"{x}{self.sign}{y} {r} {s}" for x, y, r, s in zip(a, b or [], alpha or [], seeds, strict=True)]
        self.calls += made
        return made


def test_a_text_is_written_once(tmp_path: Path) -> None:
    calls: list[str] = []
    plain = _Counting(calls)

    def cached(settings: str = "model 1") -> CachedMethod:
        return CachedMethod("splice", lambda: _Counting(calls), CacheFile(tmp_path / "texts.cache"), [settings])

    rows = (["x", "é", "x"], ["y", "ü", "y"], [0.5, 0.25, 0.5], [1, 2, 1])
    expected = plain.texts(*rows)
    calls.clear()
    assert cached().texts(*rows) == expected
    assert len(calls) == 2  # the third row is the first
    assert cached().texts(*rows) == expected
    assert len(calls) == 2
    assert cached().sampling.texts(*rows)[0] == "x~y 0.5 1"
    assert cached().texts(["x"], ["y"], [0.5], [3]) == ["x+y 0.5 3"]
    assert cached("model 2").texts(*rows) == expected
    assert len(calls) == 7
    assert cached().needs_partner
