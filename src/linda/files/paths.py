"""Paths that a user gave: whether they can be used at all, what lies there, and pipes that nothing comes through."""

import os
import select
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from linda.errors import LindaError, os_reason, shortened

# How long the first byte of a pipe may take. A reader of a pipe that nobody writes to would wait for ever.
PIPE_SECONDS = 30.0


def checked_path(path: str | Path) -> Path:
    """The path, unless no file can have it: a NUL character, a name too long, a loop of symbolic links."""
    if "\0" in str(path):
        raise LindaError(f"the path {shortened(str(path))} holds a NUL character; give another name")
    if not str(path):
        raise LindaError("the path '' is empty; give the name of a file or folder")
    place = Path(path)
    try:
        place.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass  # whoever needs it says so
    except OSError as error:
        raise LindaError(f"cannot use the path {shortened(str(path))}: {os_reason(error)}") from error
    return place


def open_input(path: str | Path) -> BinaryIO:
    """A file, a pipe or (`-`) standard input, to be read from its beginning.

    A device that never ends (/dev/zero) and a pipe through which nothing comes are `LindaError`s.
    """
    if str(path) == "-":
        if sys.stdin is None:
            raise LindaError("standard input is closed; give a file")
        _check_stream(sys.stdin.buffer, "standard input")
        return sys.stdin.buffer
    place = checked_path(path)
    if place.is_dir():
        raise LindaError(f"cannot read {path}: it is a directory; give a file in it")
    try:
        # Without O_NONBLOCK the call itself would wait for somebody to write to a named pipe.
        descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise LindaError(f"cannot read {path}: {os_reason(error)}") from error
    stream = os.fdopen(descriptor, "rb")
    try:
        _check_stream(stream, str(path))
    except BaseException:
        stream.close()
        raise
    if hasattr(os, "set_blocking"):
        os.set_blocking(descriptor, True)
    return stream


def check_regular_file(path: str | Path) -> Path:
    """A file on disk, which can be read more than once: no folder, no device, no pipe."""
    place = checked_path(path)
    if place.is_dir():
        raise LindaError(f"cannot read {path}: it is a directory; give a file in it")
    if not place.exists():
        raise LindaError(f"there is no file {path}")
    if not place.is_file():
        raise LindaError(f"cannot read {path}: it is a device or a pipe; give a file")
    return place


def _check_stream(stream: BinaryIO, name: str) -> None:
    try:
        descriptor = stream.fileno()
        mode = os.fstat(descriptor).st_mode
    except OSError:  # not one of the system's: a stream in memory
        return
    if stat.S_ISCHR(mode) and not os.isatty(descriptor):
        raise LindaError(f"cannot read {name}: it is a device, which may never end; give a file or a pipe")
    if os.name != "posix" or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return
    if not select.select([descriptor], [], [], PIPE_SECONDS)[0]:
        raise LindaError(f"nothing came from {name} in {PIPE_SECONDS:g} seconds; feed the pipe sooner, or give a file")
