"""From a file to a bigger file, in memory that does not grow with the rows; a run that is killed can go on.

The input is spooled to the journal beside the output, new rows are added to the journal chunk by chunk, and at the end
the output is put together from both: it appears under its name only when whole.
"""

import errno
import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from linda import __version__
from linda.augmentation.augmenter import Augmenter
from linda.augmentation.examples import Examples
from linda.augmentation.gates import Seen
from linda.augmentation.generation import Tally
from linda.augmentation.joined_file import check_labels_file, write_joined
from linda.augmentation.journal import Journal
from linda.augmentation.plan import Plan
from linda.augmentation.summary import Summary
from linda.errors import LindaError
from linda.files.paths import checked_path, open_input
from linda.files.spool import Spool, write_spool
from linda.files.tables import check_writable, find_format, read_table
from linda.files.textio import atomic_path, check_other_file, checked_target, display_name

# Settings that say how a run works, not what it makes: they may change when it goes on.
_FREE = ("batch_size", "workers", "progress")


def augment_file(
    augmenter: Augmenter,
    source: str | Path,
    output: str | Path,
    *,
    source_format: str | None = None,
    output_format: str | None = None,
    plan: Plan | None = None,
    resume: bool = False,
    restart: bool = False,
    on_note: Callable[[str], object] = lambda note: None,
) -> Summary:
    """Reads a table, makes new rows and writes both.

    source, output: CSV, TSV, JSON lines (.gz and .xz too) or Parquet by their names; `-` is a pipe.
    plan: who meets whom, if it is not to be drawn.
    resume: go on with an unfinished run of the same settings. restart: forget it and begin anew.
    on_note: is told what the user should know.
    """
    begun = time.monotonic()
    source_format = find_format(source, source_format)
    if output_format is None and str(output) == "-":
        output_format = source_format
    output_format = find_format(output, output_format)
    _check_output(source, output, output_format, resume or restart)
    with input_on_disk(source) as path, _full_disk_told():
        run = _run(augmenter, path, source_format, plan)
        with _journal(output, run, resume=resume, restart=restart) as journal:
            spool = spooled(augmenter, path, source_format, journal.input, display_name(source))
            examples = examples_of(augmenter, spool, display_name(source))
            for note in augmenter.notes(examples, plan):
                on_note(note)
            if plan is None:
                plan = augmenter.plan(examples, neighbours=_neighbours(augmenter, examples, journal))
            plan.check_fits(examples.labels.codes)
            _check_values(spool, output_format)
            _check_room(journal, len(plan) / len(spool))
            tally = _make(augmenter, examples, plan, journal)
            write_joined(
                output,
                output_format,
                spool,
                examples,
                (row for chunk in journal.chunks() for row in chunk.rows),
                method=augmenter.method_name,
                weight=augmenter.weight,
                only_new=augmenter.only_new,
                scratch=journal.folder,
            )
    return Summary(examples, tally, time.monotonic() - begun, augmenter.engine_name)


def examples_of(augmenter: Augmenter, spool: Spool, name: str) -> Examples:
    """The rows, every one checked; an error names the file."""
    try:
        return augmenter.examples(spool)
    except LindaError as error:
        counted = " (the first row is row 0)" if str(error).startswith("row ") else ""
        raise LindaError(f"{name}: {error}{counted}") from error


@contextmanager
def input_on_disk(source: str | Path) -> Iterator[Path]:
    """The input as a file that can be read twice: a pipe is copied to one."""
    if str(source) != "-":
        path = checked_path(source)
        if path.is_dir():
            raise LindaError(f"{source} is a folder; give a file in it")
        if not path.exists():
            raise LindaError(f"there is no file {source}")
        if path.is_file():
            yield path
            return
    pipe = open_input(source)
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / Path(source).name).open("w+b") as copy:
        shutil.copyfileobj(pipe, copy)
        copy.flush()
        if str(source) != "-":
            pipe.close()
        yield Path(copy.name)


def spooled(augmenter: Augmenter, path: Path, file_format: str, spool: Path, name: str | None = None) -> Spool:
    """The rows of a file by their numbers. The spool is written unless an earlier run has done so.

    name: what messages call the file.
    """
    if not spool.exists():
        texts = [augmenter.text] if augmenter.pair is None else [augmenter.text, augmenter.pair]
        write_spool(spool, *read_table(path, file_format, texts, name))
    return Spool(spool)


# --- what would fail in the end fails before the work ---------------------------------------------------------


def _check_output(source: str | Path, output: str | Path, output_format: str, needs_journal: bool) -> None:
    if str(output) == "-":
        if needs_journal:
            raise LindaError("a run that writes to a pipe cannot be resumed; give a file with --output")
        return
    checked_target(output)
    check_other_file(source, output)
    if output_format != "parquet":
        check_labels_file(source, output)


def _check_values(spool: Spool, output_format: str) -> None:
    first = 0
    for batch in spool.batches():
        check_writable(batch, output_format, first)
        first += len(batch)


def _check_room(journal: Journal, new_per_row: float) -> None:
    originals = journal.input.stat().st_size
    needed = originals * (1 + 2 * new_per_row)  # the output, and the new rows in the journal
    free = shutil.disk_usage(journal.folder).free
    if free < needed:
        raise LindaError(
            f"about {needed / 1e6:,.0f} MB are needed in {journal.folder.parent}, {free / 1e6:,.0f} MB are free; "
            "make room first"
        )


@contextmanager
def _full_disk_told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise LindaError("the disk is full; make room, then go on with --resume") from error


# --- the run and its journal ----------------------------------------------------------------------------------


@contextmanager
def _journal(output: str | Path, run: dict[str, Any], *, resume: bool, restart: bool) -> Iterator[Journal]:
    """Beside the output; a pipe's does not outlive the run. When all went well it is removed."""
    if str(output) == "-":
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(Path(folder) / "journal")
            journal.begin(run, resume=False, restart=False)
            yield journal
        return
    journal = Journal.beside(Path(output).resolve())
    journal.begin(run, resume=resume, restart=restart)
    try:
        yield journal
    except BaseException:
        journal.give_up()
        raise
    journal.remove()


def _run(augmenter: Augmenter, source: Path, source_format: str, plan: Plan | None) -> dict[str, Any]:
    """Everything that the new rows depend on."""
    settings = {field.name: getattr(augmenter, field.name) for field in fields(augmenter) if field.name not in _FREE}
    settings |= {name: _state(settings[name]) for name in ("model", "teacher", "encoder")}
    settings |= {"translate": [_state(model) for model in augmenter.translate or ()]}
    settings |= {"method": augmenter.method_name, "gates": asdict(augmenter.gates), "engine": augmenter.engine_name}
    columns = [] if plan is None else [plan.row, plan.partner, plan.alpha, plan.seed]
    return {
        "linda": __version__,
        "input": _file_digest(source),
        "input format": source_format,
        "plan": [hashlib.sha256(column.tobytes()).hexdigest() for column in columns],
        **settings,
    }


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _state(model: Any) -> Any:
    """Of a folder: its name, and when and how large each of its files was written. Of an object: its class."""
    if model is None:
        return None
    if not isinstance(model, str | Path):
        return type(model).__name__
    if not Path(model).is_dir():
        return str(model)
    files = sorted(file for file in Path(model).iterdir() if file.is_file())
    return [str(model), *([file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files)]


def _make(augmenter: Augmenter, examples: Examples, plan: Plan, journal: Journal) -> Tally:
    """Brings the journal to the end of the plan."""
    seen = Seen(example for _, example in examples.scan())
    tally, done = Tally(), 0
    for chunk in journal.chunks():
        tally, done = tally + chunk.tally, chunk.stop
        for row in chunk.rows:
            seen.add(row.example)
    if done < len(plan):
        teacher = _teacher(augmenter, examples, journal)
        with augmenter.writing() as write_all:
            chunks = augmenter.chunks(examples, plan, teacher, write_all, seen, start=done)
            for chunk in augmenter.with_progress(chunks, len(plan), start=done):
                journal.append(chunk)
                tally += chunk.tally
    return tally


def _teacher(augmenter: Augmenter, examples: Examples, journal: Journal) -> Any:
    """A teacher that is fine-tuned here is kept in the journal: a run that goes on must have the same one."""
    if augmenter.labels != "predicted" or augmenter.teacher is not None:
        return augmenter.find_teacher(examples)
    if not journal.teacher.exists():
        augmenter.find_teacher(examples).save(journal.teacher)
    return replace(augmenter, teacher=journal.teacher).find_teacher(examples)


def _neighbours(augmenter: Augmenter, examples: Examples, journal: Journal) -> np.ndarray | None:
    """Kept in the journal: the last digits of a likeness, by which neighbours may change, depend on the machine."""
    if journal.neighbours.exists():
        return np.asarray(np.load(journal.neighbours))
    neighbours = augmenter.find_neighbours(examples)
    if neighbours is not None:
        with atomic_path(journal.neighbours) as part, part.open("wb") as file:
            np.save(file, neighbours)
    return neighbours
