"""Text files in and out: any of plain, .gz, .xz and standard input, always UTF-8, never half a file."""

import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from linda.errors import LindaError

# A file without line ends (a binary, a JSON array on one line) must not fill the memory before it is refused.
MAX_LINE_BYTES = 16 * 2**20

_DAMAGE = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


@contextmanager
def open_text(path: str | Path) -> Iterator[Iterator[str]]:
    """The lines of a text file, one after the other, line ends kept (`-` is standard input).

        with open_text("pairs.tsv.gz") as lines:
            for number, line in enumerate(lines, start=1): ...

    A byte order mark is dropped. A file that cannot be opened or is damaged, a line that is not UTF-8 and
    a line beyond `MAX_LINE_BYTES` are `LindaError`s that name the file and the line.
    """
    name = display_name(path)
    try:
        stream = _open_binary(path)
    except OSError as error:
        raise LindaError(_cannot("read", name, error)) from error
    try:
        yield _decoded_lines(stream, name)
    finally:
        if stream is not sys.stdin.buffer:
            stream.close()


def display_name(path: str | Path) -> str:
    """How messages call this file."""
    return "standard input" if str(path) == "-" else str(path)


@contextmanager
def atomic_writer(path: str | Path) -> Iterator[TextIO]:
    """A UTF-8 text file to write (.gz and .xz are compressed) that appears under its name only when whole."""
    with atomic_path(path) as part:
        try:
            raw = part.open("wb")
        except OSError as error:
            raise LindaError(_cannot("write", str(path), error)) from error
        with raw, _compressor(raw, Path(path).suffix) as binary:
            text = io.TextIOWrapper(binary, encoding="utf-8", newline="\n")
            yield text
            text.flush()


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A place beside `path` to write to; it is moved to `path` when the block ends well, else removed."""
    target = Path(path).resolve()  # a link stays a link
    if target.is_dir():
        raise LindaError(f"cannot write {path}: it is a folder; give a file name")
    if not target.parent.is_dir():
        raise LindaError(f"cannot write {path}: the folder {target.parent} does not exist; make it first")
    if target.exists() and not target.is_file():
        yield target  # a device or a pipe (/dev/stdout) is written to, not replaced
        return
    part = target.with_name(target.name + ".part")
    try:
        yield part
        move_into_place(part, target)
    finally:
        part.unlink(missing_ok=True)


def move_into_place(part: Path, target: Path) -> None:
    """Give a complete file its final name. It survives a power cut when this returns."""
    _to_disk(part)  # otherwise a power cut could leave the new name with nothing behind it
    part.replace(target)
    with suppress(OSError):  # not every file system can do this, and the file is there
        _to_disk(target.parent)


def _to_disk(path: Path) -> None:
    """Returns when what was written to a file, or the names in a folder, would outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_binary(path: str | Path) -> BinaryIO:
    if str(path) == "-":
        return sys.stdin.buffer
    suffix = Path(path).suffix
    if suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if suffix == ".xz":
        return cast(BinaryIO, lzma.open(path, "rb"))
    return Path(path).open("rb")


def _compressor(raw: BinaryIO, suffix: str) -> BinaryIO:
    if suffix == ".gz":  # no name and no time inside: equal texts make equal files
        return cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0))
    if suffix == ".xz":
        return cast(BinaryIO, lzma.LZMAFile(raw, "wb"))
    return raw


def _decoded_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        try:
            line = stream.readline(MAX_LINE_BYTES + 1)
        except _DAMAGE as error:
            raise LindaError(f"{name}, line {number}: the compressed file is damaged ({error})") from error
        except OSError as error:
            raise LindaError(_cannot("read", name, error)) from error
        if not line:
            return
        if len(line) > MAX_LINE_BYTES:
            size = f"{MAX_LINE_BYTES // 2**20} MB"
            raise LindaError(f"{name}, line {number}: longer than {size}; give one row per line")
        yield _decoded(line, name, number)


def _decoded(line: bytes, name: str, number: int) -> str:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise LindaError(
            f"{name}, line {number}: not UTF-8 (byte 0x{byte:02x} at position {error.start + 1}); "
            "save the file as UTF-8"
        ) from error
    return text.removeprefix("\ufeff") if number == 1 else text


def _cannot(verb: str, name: str, error: OSError) -> str:
    return f"cannot {verb} {name}: {(error.strerror or str(error)).lower()}"


def check_other_file(one: str | Path, other: str | Path) -> None:
    """Two files of a run must not be one: what is written would replace what is read, or written besides."""
    if "-" in (str(one), str(other)):
        return
    first, second = Path(one), Path(other)
    if first.resolve() == second.resolve() or (first.exists() and second.exists() and first.samefile(second)):
        raise LindaError(f"{one} and {other} are the same file; give one of them another name")
