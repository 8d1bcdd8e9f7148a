"""Atomic writes of folders, such as a model or a classifier. An existing folder is replaced only by the same kind."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from linda.errors import LindaError
from linda.files.paths import checked_output_path
from linda.files.textio import part_name, writing


@contextmanager
def atomic_folder(folder: Path, kind: str, is_of_kind: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield a temporary folder to write into. It replaces `folder` if the block succeeds.

    Args:
        folder: The final folder.
        kind: What the folder will contain, for messages.
        is_of_kind: Tells whether an existing folder contains that kind, and so may be replaced.
    """
    check_replaceable(folder, kind, is_of_kind)
    old = _old_place(folder)
    if old.exists() and not folder.exists():
        old.rename(folder)  # recover from a write that was killed between two renames
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = folder.with_name(part_name())  # a random name, so it is not a folder of the user
        part.mkdir()
    try:
        with writing(folder):
            yield part
            if folder.exists():
                if old.exists():
                    shutil.rmtree(old)
                folder.rename(old)
                part.rename(folder)
                shutil.rmtree(old)
            else:
                part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def check_replaceable(folder: Path, kind: str, is_of_kind: Callable[[Path], bool]) -> None:
    """Raise an error unless the folder is missing, empty or of the given kind."""
    if not checked_output_path(folder).name:  # the working directory, or the root
        raise LindaError(f"cannot write {folder}: give the name of a new folder")
    for place in (folder, _old_place(folder)):
        is_empty = place.is_dir() and not any(place.iterdir())
        if place.exists() and not is_empty and not is_of_kind(place):
            raise LindaError(f"{place} already exists and does not contain a {kind}; give another folder")
    _check_parent(folder)


def check_output_folder(folder: Path) -> None:
    """Raise an error unless files can be written into a folder, which need not exist yet."""
    if checked_output_path(folder).exists() and not folder.is_dir():
        raise LindaError(f"cannot write to {folder}: it is a file; give a folder")
    if folder.exists() and not os.access(folder, os.W_OK):
        raise LindaError(f"cannot write to {folder}: it is read-only; give another folder")
    _check_parent(folder)


def _check_parent(folder: Path) -> None:
    if folder.exists():
        return
    parent = next(place for place in folder.absolute().parents if place.exists())
    if not parent.is_dir():
        raise LindaError(f"cannot write {folder}: {parent} is a file; give another folder")
    if not os.access(parent, os.W_OK):
        raise LindaError(f"cannot write {folder}: the folder {parent} is read-only; give another folder")


def _old_place(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.linda-replaced")
