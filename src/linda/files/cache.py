"""A cache of expensive results: one SQLite file, shared by several processes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from linda.errors import LindaError
from linda.files.textio import writing

_TIMEOUT = 60  # seconds to wait for another process that is writing
_KEYS_PER_QUERY = 500


class CacheFile:
    """A persistent map from keys to byte strings.

    Args:
        path: The file, created if it does not exist. A file of another kind raises an error.

    Example:
        cache = CacheFile(Path("texts.cache"))
        cache.put({cache_key("eda", "a fine film", 7): b"a nice film"})
        cache.get([cache_key("eda", "a fine film", 7)])
    """

    def __init__(self, path: Path) -> None:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # isolation_level=None: each statement is its own transaction.
            self._connection = sqlite3.connect(path, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = OFF")  # lost results are computed again
            self._connection.execute("CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, value BLOB NOT NULL)")
        except sqlite3.Error as error:
            raise LindaError(f"{path} cannot be used as a cache ({error}); give a new file, or delete it") from error

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of the keys that exist."""
        found: dict[bytes, bytes] = {}
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            part = keys[start : start + _KEYS_PER_QUERY]
            marks = ",".join("?" * len(part))
            found.update(self._connection.execute(f"SELECT key, value FROM results WHERE key IN ({marks})", part))
        return found

    def put(self, values: Mapping[bytes, bytes]) -> None:
        """Add values. A key that another process added in the meantime keeps its value."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT OR IGNORE INTO results VALUES (?, ?)", values.items())
        self._connection.execute("COMMIT")


@lru_cache(maxsize=2)
def open_cache(path: Path) -> CacheFile:
    """Open a cache once per process."""
    return CacheFile(path)


def cache_key(*parts: str | float | Iterable[str | float | None] | None) -> bytes:
    """Return a hash of everything that a result depends on."""
    return blake2b(json.dumps(parts).encode(), digest_size=16).digest()
