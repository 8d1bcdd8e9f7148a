"""Caches of what a run reads: tasks, models, teachers. A new run reads everything again, because files may change."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., object])

_clear: list[Callable[[], None]] = []  # one for each cached function


def run_cache(maxsize: int) -> Callable[[_Function], _Function]:
    """Like `functools.lru_cache`, but `clear_run_caches` empties it."""

    def decorate(function: _Function) -> _Function:
        cached = lru_cache(maxsize)(function)
        _clear.append(cached.cache_clear)
        return cast(_Function, cached)

    return decorate


def clear_run_caches() -> None:
    """Empty the caches of all functions with `run_cache`."""
    for clear in _clear:
        clear()
