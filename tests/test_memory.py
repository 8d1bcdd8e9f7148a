"""Freed memory goes back to the system, where the C library can."""

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from linda.interpolation import memory


@pytest.fixture(autouse=True)
def asked_anew() -> Any:
    memory._trim.cache_clear()
    yield
    memory._trim.cache_clear()


def test_glibc_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(malloc_trim=kept.append))
    memory.give_back()
    memory.give_back()
    assert kept == [0, 0]


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def no_library(name: None) -> None:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    memory.give_back()


def test_it_works_here() -> None:
    memory.give_back()
