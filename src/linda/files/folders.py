"""Folders that are written whole: a model, a classifier. What stood there before is replaced, if it is of the kind."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from linda.errors import LindaError
from linda.files.paths import checked_path
from linda.files.textio import part_name, writing


@contextmanager
def atomic_folder(folder: Path, kind: str, is_of_kind: Callable[[Path], bool]) -> Iterator[Path]:
    """A folder beside `folder` to write into; it takes its place when the block ends well.

    kind: what is written, for messages; is_of_kind: whether a folder holds such a thing.
    """
    check_replaceable(folder, kind, is_of_kind)
    old = _old_place(folder)
    if old.exists() and not folder.exists():
        old.rename(folder)  # an earlier write was killed between two renames
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = folder.with_name(part_name())  # a new name: no folder of the user's
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
    """One of the kind may be replaced, and an empty folder filled; anything else that is there is left alone."""
    for place in (checked_path(folder), _old_place(folder)):
        is_empty = place.is_dir() and not any(place.iterdir())
        if place.exists() and not is_empty and not is_of_kind(place):
            raise LindaError(f"{place} is there and holds no {kind}; give another folder")
    _check_parent(folder)


def check_output_folder(folder: Path) -> None:
    """Whether files can be written into a folder, which need not be there yet."""
    if checked_path(folder).exists() and not folder.is_dir():
        raise LindaError(f"cannot write to {folder}: it is a file; give a folder")
    if folder.exists() and not os.access(folder, os.W_OK):
        raise LindaError(f"cannot write to {folder}: it is read-only; choose another folder")
    _check_parent(folder)


def _check_parent(folder: Path) -> None:
    if folder.exists():
        return
    parent = next(place for place in folder.absolute().parents if place.exists())
    if not parent.is_dir():
        raise LindaError(f"cannot write {folder}: {parent} is a file; give another folder")
    if not os.access(parent, os.W_OK):
        raise LindaError(f"cannot write {folder}: the folder {parent} is read-only; choose another")


def _old_place(folder: Path) -> Path:
    """Where a folder waits while a new one takes its place."""
    return folder.with_name(f".{folder.name}.linda-replaced")
