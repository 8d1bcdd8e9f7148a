"""Checks of paths given by users, and timeouts for pipes without input."""

import hashlib
import os
import select
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from linda.errors import LindaError, os_reason, shortened

# Timeout for the first byte of a pipe. Reading a pipe without a writer would block forever.
PIPE_SECONDS = 30.0


def checked_path(path: str | Path) -> Path:
    """Return the path; reject NUL characters, names that are too long and loops of symbolic links."""
    if not isinstance(path, str | Path):
        raise LindaError(f"the path is {shortened(path)}; it must be the name of a file or folder")
    if "\0" in str(path):
        raise LindaError(f"the path {shortened(str(path))} contains a NUL character; give another name")
    if not str(path):
        raise LindaError("the path '' is empty; give the name of a file or folder")
    place = Path(path)
    try:
        place.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass  # reported when the file is opened
    except OSError as error:
        raise LindaError(f"cannot use the path {shortened(str(path))}: {os_reason(error)}") from error
    return place


def checked_output_path(path: str | Path) -> Path:
    """Return the path of a file or folder to write. Its name must be UTF-8, because some libraries require it."""
    place = checked_path(path)
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise LindaError(f"cannot write {shortened(str(path))}: the name is not UTF-8; give another name") from error
    return place


def open_input(path: str | Path) -> BinaryIO:
    """Open a file, a pipe or standard input (`-`) for reading.

    An endless device (/dev/zero) and a pipe without input raise a `LindaError`.
    """
    if str(path) == "-":
        if sys.stdin is None:
            raise LindaError("standard input is closed; give a file")
        _check_stream(sys.stdin.buffer, "standard input")
        return sys.stdin.buffer
    place = checked_path(path)
    if place.is_dir():
        raise LindaError(f"cannot read {path}: it is a folder; give a file in it")
    try:
        # Without O_NONBLOCK, opening a named pipe would block until there is a writer.
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
    """Return the path of a regular file, which can be read more than once."""
    place = checked_path(path)
    if place.is_dir():
        raise LindaError(f"cannot read {path}: it is a folder; give a file in it")
    if not place.exists():
        raise LindaError(f"cannot read {path}: no such file or directory")
    if not place.is_file():
        raise LindaError(f"cannot read {path}: it is a device or a pipe; give a file")
    return place


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 of a file."""
    with check_regular_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_stream(stream: BinaryIO, name: str) -> None:
    try:
        descriptor = stream.fileno()
        mode = os.fstat(descriptor).st_mode
    except OSError:  # a stream in memory has no file descriptor
        return
    if stat.S_ISCHR(mode) and not os.isatty(descriptor):
        raise LindaError(f"cannot read {name}: it is a device, which may be endless; give a file or a pipe")
    if os.name != "posix" or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return
    if not select.select([descriptor], [], [], PIPE_SECONDS)[0]:
        raise LindaError(
            f"no input from {name} within {PIPE_SECONDS:g} seconds; start the program that writes to it, or give a file"
        )
