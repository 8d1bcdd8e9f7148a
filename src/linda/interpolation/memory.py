"""Freed memory is returned to the system."""

import ctypes
from collections.abc import Callable
from functools import cache


def return_freed_memory() -> None:
    """Return freed memory to the system if the C library is glibc; do nothing elsewhere.

    Decoding allocates and frees tensors of varying sizes. glibc keeps freed blocks for reuse, but the next tensor is
    often slightly larger: without this, a process needs twice as much memory after tens of thousands of rows.
    """
    _trim()(0)


@cache
def _trim() -> Callable[[int], int]:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library; macOS; Windows
        return lambda padding: 0
    return trim
