"""Uploaded tables and their runs, in a temporary folder that is removed with the server.

No file is opened by a name that a browser sent: tables and jobs have random ids, and their files have fixed names.
"""

import asyncio
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from linda.errors import LindaError
from linda.web.batcher import CancelledError, QueueFullError
from linda.web.limits import Limits
from linda.web.schemas import RunTable
from linda.web.tables import (
    LoadedMethods,
    Progress,
    StoppedError,
    TableFile,
    make_augmenter,
    preview_table,
    read_table_file,
    run_table,
    summary_values,
    table_format,
)

# Concurrent runs and previews, and concurrent /v1/augment requests. All share one engine.
_JOB_THREADS, _REQUEST_THREADS = 2, 4

_BUSY_SECONDS = 5  # Retry-After when all slots are in use

_MIME_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values; charset=utf-8",
    "jsonl": "application/jsonl; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


@dataclass(eq=False)
class TableJob:
    """A preview or a run. The page polls it, also after a reload."""

    id: str
    table: TableFile
    is_preview: bool
    command: str
    output_name: str
    file: Path
    state: str = "waiting"  # running, done, failed, stopped
    error: str | None = None
    result: dict[str, Any] | None = None
    progress: Progress = field(default_factory=Progress)
    begun: float | None = None

    @property
    def is_finished(self) -> bool:
        return self.state in ("done", "failed", "stopped")

    @property
    def mime_type(self) -> str:
        return _MIME_TYPES[self.file.suffix.removeprefix(".")]

    def values(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "table": self.table.name,
            "preview": self.is_preview,
            "state": self.state,
            "done": self.progress.done,
            "total": self.progress.total,
            "seconds": None if self.begun is None else round(time.monotonic() - self.begun, 1),
            "command": self.command,
            "file": self.output_name if self.state == "done" and not self.is_preview else None,
            "result": self.result,
            "error": self.error,
        }


class Workspace:
    """Stores a limited number of tables and jobs, and runs the jobs."""

    def __init__(self, loaded: LoadedMethods, limits: Limits, server: dict[str, str | None]) -> None:
        """server: model, engine and trigrams that the server was started with, as on the command line."""
        self._loaded = loaded
        self._limits = limits
        self._server = server
        self._root = Path(tempfile.mkdtemp(prefix="linda-serve-"))
        self._tables: dict[str, TableFile] = {}  # least recently used first
        self._uploads = 0  # in progress
        self._jobs: dict[str, TableJob] = {}
        self._job_threads = ThreadPoolExecutor(_JOB_THREADS, thread_name_prefix="linda-job")
        self._request_threads = ThreadPoolExecutor(_REQUEST_THREADS, thread_name_prefix="linda-augment")
        self._requests: set[Progress] = set()

    def close(self) -> None:
        """Stop all jobs and delete all files."""
        for progress in [*self._requests, *(job.progress for job in self._jobs.values())]:
            progress.stop()
        self._job_threads.shutdown(cancel_futures=True)
        self._request_threads.shutdown(cancel_futures=True)
        shutil.rmtree(self._root, ignore_errors=True)

    # --- tables -----------------------------------------------------------------------------------------------

    async def add_table(self, name: str, body: AsyncIterator[bytes]) -> tuple[str, TableFile]:
        """Store an uploaded table. Of its `name` in the browser only the extension is used, for the format."""
        name = _display_name(name)
        file_format = table_format(name)
        self._make_room()
        self._uploads += 1
        id_ = secrets.token_urlsafe(12)
        folder = self._root / id_
        try:
            folder.mkdir()
            path = folder / f"input.{file_format}"
            with path.open("wb") as file:
                async for part in body:
                    file.write(part)
            table = await asyncio.to_thread(read_table_file, path, name, file_format, self._limits.table_rows)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            self._uploads -= 1
        self._tables[id_] = table
        return id_, table

    def _make_room(self) -> None:
        """At the limit, remove the least recently used table without unfinished jobs, or raise QueueFullError."""
        if len(self._tables) + self._uploads < self._limits.tables:
            return
        busy = {id(job.table) for job in self._jobs.values() if not job.is_finished}
        oldest = next((id_ for id_, table in self._tables.items() if id(table) not in busy), None)
        if oldest is None:
            raise QueueFullError(_BUSY_SECONDS)
        table = self._tables.pop(oldest)
        self._jobs = {id_: job for id_, job in self._jobs.items() if job.table is not table}
        shutil.rmtree(self._root / oldest, ignore_errors=True)

    def table(self, id_: str) -> TableFile | None:
        table = self._tables.pop(id_, None)
        if table is not None:
            self._tables[id_] = table  # most recently used
        return table

    # --- jobs -------------------------------------------------------------------------------------------------

    def start(self, table: TableFile, asked: RunTable) -> TableJob:
        """Start a preview or a run. A new preview replaces an earlier one of the same table."""
        self._forget_previews(table)
        if sum(not job.is_finished for job in self._jobs.values()) >= self._limits.waiting_jobs:
            raise QueueFullError(_BUSY_SECONDS)
        output_format = asked.output_format or table.file_format
        output_name = f"{Path(table.name).stem}-augmented.{output_format}"
        id_ = secrets.token_urlsafe(12)
        folder = table.path.parent / id_
        job = TableJob(
            id_,
            table,
            asked.preview,
            asked.command(table.name, output_name, self._server),
            output_name,
            folder / f"output.{output_format}",
        )
        augmenter = make_augmenter(asked.values(), self._loaded, job.progress)  # raises errors in the settings at once
        folder.mkdir()
        self._jobs[id_] = job

        def work() -> dict[str, Any]:
            if job.is_preview:
                return preview_table(table, folder, augmenter, job.progress)
            return summary_values(run_table(table, job.file, output_format, augmenter, job.progress))

        self._job_threads.submit(_run, job, work)
        return job

    def _forget_previews(self, table: TableFile) -> None:
        for job in [job for job in self._jobs.values() if job.table is table and job.is_preview]:
            job.progress.stop()
            if job.is_finished:
                del self._jobs[job.id]
                shutil.rmtree(job.file.parent, ignore_errors=True)

    def job(self, id_: str) -> TableJob | None:
        return self._jobs.get(id_)

    # --- small tables of other programs -----------------------------------------------------------------------

    async def augment(self, data: dict[str, list[Any]], settings: dict[str, Any]) -> list[dict[str, Any]]:
        """Augment rows on another thread, which stops if the awaiting task is cancelled."""
        if len(self._requests) >= self._limits.waiting_jobs:
            raise QueueFullError(_BUSY_SECONDS)
        progress = Progress()
        self._requests.add(progress)
        future: Future[list[dict[str, Any]]] = self._request_threads.submit(
            lambda: make_augmenter(settings, self._loaded, progress).augment(data)
        )
        future.add_done_callback(lambda _: self._requests.discard(progress))
        try:
            return await asyncio.wrap_future(future)
        finally:
            progress.stop()


def _run(job: TableJob, work: Callable[[], dict[str, Any]]) -> None:
    job.state, job.begun = "running", time.monotonic()
    try:
        job.progress.check()
        job.result = work()
        job.state = "done"
    except (StoppedError, CancelledError):
        job.state = "stopped"
    except LindaError as error:
        job.error, job.state = str(error), "failed"
    except Exception as error:
        job.error, job.state = f"the run failed: {error}", "failed"
        raise
    finally:
        if job.state != "done":
            shutil.rmtree(job.file.parent, ignore_errors=True)


def _display_name(name: str) -> str:
    """Return the printable characters of the last part of a path."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(character for character in last if character.isprintable())[-100:] or "table"
