"""Freed memory, given back to the system."""

import ctypes
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Where the C library is glibc, hands over what was freed; elsewhere it does nothing.

    Decoding allocates and frees tensors of ever changing sizes. glibc keeps what was freed for the next one, but the
    next is often a little larger: over tens of thousands of rows a process came to hold twice what it uses.
    """
    _trim()(0)


@cache
def _trim() -> Callable[[int], int]:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library; macOS; Windows
        return lambda kept: 0
    return trim
