"""Text files: plain, .gz, .xz or standard input, always UTF-8. Files are written completely or not at all."""

import errno
import gzip
import io
import lzma
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from linda.errors import LindaError, os_reason
from linda.files.paths import checked_output_path, checked_path, open_input

# Rejects a file without line breaks (a binary, a JSON array on one line) before it fills the memory.
MAX_LINE_BYTES = 16 * 2**20

# Names of files with one text per line.
LINE_FILES = (".txt", ".txt.gz", ".txt.xz")

_DAMAGE = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


@contextmanager
def open_text(path: str | Path) -> Iterator[Iterator[str]]:
    """Yield an iterator over the lines of a text file, with line breaks (`-` is standard input).

    A byte order mark is dropped. A file that cannot be opened or is damaged, a line that is not UTF-8 and a line longer
    than `MAX_LINE_BYTES` raise a `LindaError` that names the file and the line.

    Example:
        with open_text("pairs.tsv.gz") as lines:
            for number, line in enumerate(lines, start=1): ...
    """
    raw = open_input(path)
    try:
        yield _decoded_lines(_decompressor(raw, Path(path).suffix), display_name(path))
    finally:
        if str(path) != "-":
            raw.close()


def display_name(path: str | Path) -> str:
    """Return the name of a file in messages."""
    return "standard input" if str(path) == "-" else str(path)


@contextmanager
def atomic_writer(path: str | Path, scratch: Path | None = None) -> Iterator[TextIO]:
    """Yield a UTF-8 text file to write (.gz and .xz are compressed) that appears under its name only when complete.

    `scratch` is as in `atomic_path`.
    """
    target = checked_target(path)
    # A device or a pipe (/dev/stdout) is written directly.
    with nullcontext(target) if _is_special(target) else atomic_path(path, scratch) as part:
        with writing(path):
            raw = part.open("wb")
        with raw, _compressor(raw, Path(path).suffix) as binary:
            text = io.TextIOWrapper(binary, encoding="utf-8", newline="\n")
            yield text
            text.flush()


@contextmanager
def atomic_path(path: str | Path, scratch: Path | None = None) -> Iterator[Path]:
    """Yield a temporary file to write to; it is moved to `path` if the block succeeds, else removed.

    Its name is random, so that no file other than `path` is overwritten.

    Args:
        path: The final file.
        scratch: Folder for the temporary file, on the same disk as `path`; default: that of `path`.
    """
    target = checked_target(path)
    if _is_special(target):  # it would be replaced by a file
        raise LindaError(f"cannot write {path}: it is a device or a pipe; give a file")
    with writing(path):
        part = _new_file(scratch or target.parent)
    try:
        yield part
        with writing(path):
            move_into_place(part, target)
    finally:
        part.unlink(missing_ok=True)


def _is_special(target: Path) -> bool:
    """Whether this is a device or a pipe."""
    return target.exists() and not target.is_file()


def checked_target(path: str | Path) -> Path:
    """Return the path to write to; raise an error before any work is done if it cannot be written."""
    target = checked_output_path(path).resolve()  # write through a symbolic link
    if target.is_dir() or str(path).endswith("/"):
        raise LindaError(f"cannot write {path}: it is a folder; give a file name")
    if not target.parent.is_dir():
        raise LindaError(f"cannot write {path}: the folder {target.parent} does not exist; create it first")
    if not os.access(target.parent, os.W_OK) and not target.exists():
        raise LindaError(f"cannot write {path}: the folder {target.parent} is read-only; give another folder")
    return target


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Convert an `OSError` while writing `path` into an error that names it."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.ENOSPC):  # not errors of this file; reported elsewhere
            raise
        raise LindaError(f"cannot write {path}: {os_reason(error)}") from error


# The names of incomplete files and folders.
PART_PATTERN = ".linda-*.part"


def part_name() -> str:
    return f".linda-{secrets.token_hex(8)}.part"


def _new_file(folder: Path) -> Path:
    part = folder / part_name()
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))  # the umask applies, as for any new file
    return part


def move_into_place(part: Path, target: Path) -> None:
    """Rename a complete file to its final name, so that it survives a power failure."""
    _fsync(part)  # otherwise a power failure could leave an empty file under the new name
    part.replace(target)
    with suppress(OSError):  # not every file system supports this, and the file is already in place
        _fsync(target.parent)


def _fsync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _decompressor(raw: BinaryIO, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))
    if suffix == ".xz":
        return cast(BinaryIO, lzma.LZMAFile(raw, "rb"))
    return raw


def _compressor(raw: BinaryIO, suffix: str) -> BinaryIO:
    if suffix == ".gz":  # without name and time, so that the file depends only on the text
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
            raise LindaError(f"cannot read {name}: {os_reason(error)}") from error
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


def check_other_file(one: str | Path, other: str | Path) -> None:
    """Raise an error if two files of a run are the same: one would overwrite the other."""
    if "-" in (str(one), str(other)):
        return
    first, second = checked_path(one), checked_path(other)
    if first.resolve() == second.resolve() or (first.exists() and second.exists() and first.samefile(second)):
        raise LindaError(f"{one} and {other} are the same file; give one of them another name")
