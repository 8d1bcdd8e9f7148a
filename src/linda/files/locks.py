"""File locks. The system releases the lock of a killed process. On Windows, locks have no effect."""

import os
from pathlib import Path


class FileLock:
    """An exclusive or shared lock on a file, which is created if needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self, *, shared: bool = False, wait: bool = False) -> bool:
        """Take the lock, or change its kind. Return False if another process holds it, unless `wait` is set."""
        try:
            import fcntl
        except ImportError:  # not on Windows
            return True
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT)
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self._descriptor, kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            return False
        return True

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
