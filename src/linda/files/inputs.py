"""The files of one table: a file, a pipe, or a folder of files, on this machine or on a remote file system."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from linda.errors import LindaError, reason
from linda.files.paths import checked_path, file_digest, open_input
from linda.files.storage import file_system, is_url
from linda.files.tables import find_format, is_json, read_table
from linda.files.textio import display_name


@dataclass(frozen=True)
class InputFile:
    """One file of a table."""

    place: str  # path or URL
    name: str  # in messages
    file_format: str

    @contextmanager
    def on_disk(self) -> Iterator[Path]:
        """Yield a local path to read from. A remote file is copied to a temporary file."""
        if not is_url(self.place):
            yield Path(self.place)
            return
        remote, path = file_system(self.place)
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / path.rsplit("/", 1)[-1]
            try:
                remote.get_file(path, str(copy))
            except OSError as error:
                raise LindaError(f"cannot read {self.name}: {str(error).lower() or 'no such file'}") from error
            yield copy

    def digest(self) -> str:
        """Return the SHA-256 of the content."""
        with self.on_disk() as path:
            return file_digest(path)

    def state(self) -> list[Any]:
        """Return size and modification time, so that unchanged files need not be hashed again."""
        if is_url(self.place):
            remote, path = file_system(self.place)
            found = remote.info(path)
            return [found.get("size"), str(found.get("mtime") or found.get("LastModified") or found.get("created"))]
        status = Path(self.place).stat()
        return [status.st_size, status.st_mtime_ns]


@contextmanager
def input_files(source: str | Path, file_format: str | None = None) -> Iterator[list[InputFile]]:
    """Yield the files of a table: one file, the sorted files of a folder, or a copy of standard input (`-`) or a pipe.

    Files of a folder whose extension is not a known format are ignored.
    """
    name = display_name(source)
    if is_url(source):
        yield _remote_files(str(source), file_format)
        return
    path = Path(source)
    if str(source) != "-":
        if checked_path(source).is_file():
            yield [InputFile(str(source), name, find_format(source, file_format))]
            return
        if path.is_dir():
            yield _files_of_folder(name, [str(file) for file in sorted(path.iterdir()) if file.is_file()], file_format)
            return
        if not path.exists():
            raise LindaError(f"cannot read {source}: no such file or directory")
    file_format = find_format(source, file_format)
    pipe = open_input(source)
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / path.name).open("w+b") as copy:
        shutil.copyfileobj(pipe, copy)
        copy.flush()
        if str(source) != "-":
            pipe.close()
        yield [InputFile(copy.name, name, file_format)]


def read_files(files: Sequence[InputFile], texts: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all files in order, in small batches of one schema. `texts`: columns read as text."""
    first: pa.Schema | None = None
    for file in files:
        with file.on_disk() as path:
            schema, batches = read_table(path, file.file_format, texts, file.name)
            first = first or schema
            _check_same_schema(first, schema, files[0].name, file.name)
            for batch in batches:
                columns = [column.cast(field.type) for column, field in zip(batch.columns, first, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=first)


def _remote_files(url: str, file_format: str | None) -> list[InputFile]:
    remote, path = file_system(url)
    try:
        if remote.info(path)["type"] == "file":  # isfile would hide an error, and ls would time out a second time
            return [InputFile(url, url, find_format(url, file_format))]
        found = remote.ls(path, detail=True)
    except OSError as error:
        raise LindaError(f"cannot read {url}: {reason(error).lower()}") from error
    names = sorted(entry["name"].rsplit("/", 1)[-1] for entry in found if entry["type"] == "file")
    return _files_of_folder(url, [f"{url.rstrip('/')}/{name}" for name in names], file_format)


def _files_of_folder(folder: str, places: list[str], file_format: str | None) -> list[InputFile]:
    files = []
    for place in places:
        if place.rsplit("/", 1)[-1].startswith((".", "_")):
            continue
        try:
            files.append(InputFile(place, place, find_format(place, file_format)))
        except LindaError:
            continue
    if not files:
        raise LindaError(f"{folder} is a folder; give a file, or a folder with .csv, .tsv, .jsonl or .parquet files")
    return files


def _check_same_schema(first: pa.Schema, second: pa.Schema, first_name: str, second_name: str) -> None:
    one, other = ({field.name: _kind(field) for field in schema} for schema in (first, second))
    for column in {**one, **other}:
        if one.get(column) != other.get(column):
            if column in one:
                difference = f"is {other[column]}, not {one[column]}" if column in other else "is missing"
            else:
                difference = f"is not in {first_name}"
            raise LindaError(
                f"{second_name} has a different schema from {first_name}: column {column!r} {difference}; "
                "give all files the same columns"
            )
    if list(one) != list(other):
        raise LindaError(
            f"{second_name} has its columns in a different order from {first_name}; use the same order in all files"
        )


def _kind(field: pa.Field) -> str:
    # Writers differ in the offset width of strings and lists (large_string), which does not affect values.
    return "of several types" if is_json(field) else str(field.type).replace("large_", "")
