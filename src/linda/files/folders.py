"""Folders that are written whole: a model, a classifier. What stood there before is replaced, if it is of the kind."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from linda.errors import LindaError


@contextmanager
def atomic_folder(folder: Path, kind: str, is_of_kind: Callable[[Path], bool]) -> Iterator[Path]:
    """A folder beside `folder` to write into; it takes its place when the block ends well.

    kind: what is written, for messages; is_of_kind: whether a folder holds such a thing.
    """
    old = folder.with_name(f".{folder.name}.replaced")  # a name that is nobody else's
    if old.exists() and not folder.exists():
        old.rename(folder)  # an earlier write was killed between two renames
    check_replaceable(folder, kind, is_of_kind)
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    yield part
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
        part.rename(folder)
        shutil.rmtree(old)
    else:
        part.rename(folder)


def check_replaceable(folder: Path, kind: str, is_of_kind: Callable[[Path], bool]) -> None:
    """One of the kind may be replaced, and an empty folder filled; anything else that is there is left alone."""
    is_empty = folder.is_dir() and not any(folder.iterdir())
    if folder.exists() and not is_empty and not is_of_kind(folder):
        raise LindaError(f"{folder} is there and holds no {kind}; give another folder")
