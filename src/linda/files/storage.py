"""A folder on any file system: a local path, or a URL that pyarrow or fsspec supports (s3://, gs://, hdfs://, …).

Files appear under their names only when they are complete. Several processes may write the same file: each
uses its own temporary file, and the last rename wins.
"""

import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from linda.errors import LindaError, reason
from linda.files.jsonfile import read_json_object
from linda.files.textio import move_into_place

# pyarrow supports these itself; fsspec needs another package for each.
_BY_PYARROW = ("s3", "gs", "gcs", "hdfs", "viewfs")
# Object stores: an object appears when its upload is complete, and cannot be renamed.
_OBJECT_STORES = ("s3", "gs", "gcs", "az", "abfs", "adl", "oss", "memory")

# By default, the client of Google Cloud Storage retries for 15 minutes.
_RETRY_SECONDS = "retry_limit_seconds=20"


def is_url(path: str | Path) -> bool:
    return "://" in str(path)


def check_url(url: str) -> None:
    """Raise an error for a URL without a bucket or folder, such as `s3://`."""
    scheme, _, rest = url.partition("://")
    if not scheme or not rest.strip("/"):
        raise LindaError(f"the URL {url} names no bucket or folder; give e.g. {scheme or 's3'}://bucket/folder/")


def file_system(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path in it."""
    import fsspec
    import pyarrow as pa
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow import fs as arrow_fs

    check_url(url)
    try:
        scheme = url.split("://")[0]
        if scheme in _BY_PYARROW:
            is_limited = scheme not in ("gs", "gcs") or "retry_limit_seconds=" in url
            found, path = arrow_fs.FileSystem.from_uri(url if is_limited else _with_query(url, _RETRY_SECONDS))
            return ArrowFSWrapper(found), path
        return fsspec.core.url_to_fs(url)
    except (ImportError, ValueError, OSError, pa.ArrowException) as error:
        raise LindaError(f"cannot open {url}: {_reason(error)}") from error


class Storage:
    """The files of one folder, by name. A name may contain a folder: `work/input-00000.arrow`."""

    def __init__(self, folder: str | Path) -> None:
        self.name = str(folder)
        self.local: Path | None = None if is_url(folder) else Path(folder)  # None for a remote folder
        if self.local is None:
            self._remote, self._root = file_system(self.name)

    def __str__(self) -> str:
        return self.name

    def names(self) -> list[str]:
        """Return the sorted names of the files directly in this folder."""
        if self.local is not None:
            return sorted(path.name for path in self.local.iterdir() if path.is_file()) if self.local.is_dir() else []
        root = self._root.rstrip("/")
        self._remote.invalidate_cache()
        found = self._remote.ls(root, detail=True) if self._remote.exists(root) else []
        return sorted(entry["name"].rsplit("/", 1)[-1] for entry in found)

    def exists(self, name: str) -> bool:
        if self.local is not None:
            return (self.local / name).is_file()
        self._remote.invalidate_cache()
        return bool(self._remote.exists(f"{self._root}/{name}"))

    @contextmanager
    def reading(self, name: str) -> Iterator[Path]:
        """Yield a local path to read a file from. A remote file is copied to a temporary file."""
        if self.local is not None:
            yield self.local / name
            return
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / Path(name).name
            try:
                self._remote.get_file(f"{self._root}/{name}", str(copy))
            except OSError as error:
                raise LindaError(f"cannot read {self.name}/{name}: {_reason(error)}") from error
            yield copy

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Yield a local path to write to. If the block succeeds, the file appears under its name."""
        if self.local is not None:
            target = self.local / name
            part = target.with_name(_temporary(target.name))
            try:
                self._make_folder(target.parent)
                yield part
                move_into_place(part, target)
            finally:
                part.unlink(missing_ok=True)
            return
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / Path(name).name
            yield part
            try:
                self._upload(part, f"{self._root}/{name}")
            except OSError as error:
                raise LindaError(f"cannot write to {self.name}: {_reason(error)}") from error

    def read_json(self, name: str) -> dict[str, Any]:
        with self.reading(name) as path:
            return read_json_object(path)

    def write_json(self, name: str, value: Any) -> None:
        with self.writing(name) as path:
            path.write_text(json.dumps(value, ensure_ascii=False) + "\n", encoding="utf-8")

    def remove(self, name: str) -> None:
        """Delete a file or a folder, if it exists."""
        if self.local is not None:
            path = self.local / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        elif self._remote.exists(f"{self._root}/{name}"):
            self._remote.rm(f"{self._root}/{name}", recursive=True)

    def _make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK):
                raise PermissionError(13, "Permission denied")
        except OSError as error:
            raise LindaError(f"cannot write to {self.name}: {_reason(error)}") from error

    def _upload(self, part: Path, target: str) -> None:
        folder, name = target.rsplit("/", 1)
        self._remote.makedirs(folder, exist_ok=True)
        if self.name.split("://")[0] in _OBJECT_STORES:
            self._remote.put_file(str(part), target)
            return
        temporary = f"{folder}/{_temporary(name)}"
        self._remote.put_file(str(part), temporary)
        if self._remote.exists(target):
            self._remote.rm(target)
        self._remote.mv(temporary, target)


def _with_query(url: str, part: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{part}"


def _temporary(name: str) -> str:
    """Return a hidden name: readers of Parquet folders ignore such files, which remain if the process is killed."""
    return f".{name}.{uuid.uuid4().hex}.part"


def _reason(error: BaseException) -> str:
    return (getattr(error, "strerror", None) or reason(error)).rstrip(".").lower()
