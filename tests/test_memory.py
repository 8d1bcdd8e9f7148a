"""Freed memory is returned to the system, if the C library supports it."""

import ctypes
import platform
import subprocess
import sys
from typing import Any

import pytest

from linda.interpolation import memory

# Blocks are smaller than those that the C library maps separately, so that freeing them leaves a hole; the last keeps
# the end of the heap in use. Printed: megabytes resident with the blocks, without them, and after returning memory.
_PROGRAM = """
import resource
from pathlib import Path
from linda.interpolation.memory import return_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

blocks = [bytearray(100_000) for _ in range(2000)]
with_blocks = resident()
last = bytearray(100_000)
del blocks
freed = resident()
return_freed_memory()
print(with_blocks, freed, resident())
"""


@pytest.fixture(autouse=True)
def asked_anew() -> Any:
    memory._trim.cache_clear()
    yield
    memory._trim.cache_clear()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps what is freed, and can be asked for it")
def test_freed_memory_goes_back() -> None:
    printed = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True).stdout
    with_blocks, freed, given_back = map(float, printed.split())
    assert given_back < with_blocks - 150  # of the 190 MB of the blocks
    assert given_back <= freed


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_without_such_a_library_nothing_is_called(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    asked: list[None] = []

    def no_library(name: None) -> None:
        asked.append(name)
        raise error

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    memory.return_freed_memory()
    memory.return_freed_memory()
    assert asked == [None]  # called once
