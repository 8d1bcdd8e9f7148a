"""The pipeline on files: streamed, and resumable after a crash.

The input is copied to the journal next to the output, new rows are appended to the journal chunk by chunk, and the
output is written from both at the end. It appears under its name only when it is complete.
"""

import errno
import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from linda import __version__
from linda.augmentation.balance import BalancedPlanner
from linda.augmentation.examples import Examples
from linda.augmentation.journal import Journal
from linda.augmentation.pipeline import Augmenter, augment_rows, check_rows, find_teacher
from linda.augmentation.plan import Plan
from linda.augmentation.planning import find_neighbours, notes, planned_rows
from linda.augmentation.settings import EXECUTION, AugmentationSettings
from linda.augmentation.summary import RunSummary, Tally
from linda.augmentation.tables import NewRow, joined_batches, joined_schema
from linda.errors import LindaError
from linda.files.jsonfile import read_json_object
from linda.files.paths import checked_path, open_input
from linda.files.spool import Spool, write_spool
from linda.files.tables import check_writable, find_format, open_table, read_table
from linda.files.textio import atomic_path, atomic_writer, check_other_file, checked_target, display_name


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
) -> RunSummary:
    """Read a table, make new rows and write both.

    Args:
        augmenter: The settings.
        source: Input file: CSV, TSV, JSON lines (also .gz and .xz) or Parquet, by its name; `-` for standard input.
        output: Output file, likewise; `-` for standard output.
        source_format: Format of the input, if its name does not show it: csv, tsv, jsonl or parquet.
        output_format: Format of the output, likewise.
        plan: Which rows to mix, and at which ratio. By default it is drawn.
        resume: Continue an unfinished run with the same settings.
        restart: Delete an unfinished run and start over.
        on_note: Called with each message for the user.

    Returns:
        Counts of the run. `str` formats them.

    Example:
        print(linda.augment_file(linda.Augmenter(per_row=2), "train.csv", "bigger.parquet"))
    """
    start = time.monotonic()
    source_format = find_format(source, source_format)
    if output_format is None and str(output) == "-":
        output_format = source_format
    output_format = find_format(output, output_format)
    _check_output(source, output, output_format, resume or restart)
    with input_on_disk(source) as path, _full_disk_reported():
        run = _run(augmenter, path, source_format, plan)
        with _journal(output, run, resume=resume, restart=restart) as journal:
            spool = spooled(augmenter, path, source_format, journal.input, display_name(source))
            examples = examples_of(augmenter, spool, display_name(source))
            for note in notes(examples, augmenter, plan_is_given=plan is not None):
                on_note(note)
            neighbours = None if plan is not None else _neighbours(augmenter, examples, journal)
            plan, planner = planned_rows(examples, augmenter, plan, neighbours)
            _check_values(spool, output_format)
            _check_disk_space(journal, len(plan) / len(spool))
            _generate(augmenter, examples, plan, journal, planner)
            rows = chain.from_iterable(chunk.rows for chunk in journal.chunks())
            write_output(output, output_format, spool, examples, rows, augmenter, scratch=journal.folder)
            tally = sum((chunk.tally for chunk in journal.chunks()), Tally())
    return RunSummary(examples, tally, time.monotonic() - start, augmenter)


def examples_of(settings: AugmentationSettings, spool: Spool, name: str) -> Examples:
    """The rows, checked. Errors name the file."""
    try:
        return check_rows(spool, settings)
    except LindaError as error:
        counted = " (the first row is row 0)" if str(error).startswith("row ") else ""
        raise LindaError(f"{name}: {error}{counted}") from error


def write_output(
    output: str | Path,
    file_format: str,
    spool: Spool,
    examples: Examples,
    rows: Iterable[NewRow],
    settings: AugmentationSettings,
    *,
    scratch: Path,
) -> None:
    """Write originals and new rows, and the class names: in the metadata of Parquet, otherwise in `OUT.labels.json`.

    Args:
        output: Output file; `-` for standard output.
        file_format: csv, tsv, jsonl or parquet.
        spool: The originals.
        examples: The originals, checked.
        rows: The new rows.
        settings: Which columns are written.
        scratch: Folder of the incomplete output, on the same disk.
    """
    schema = joined_schema(spool, examples, settings)
    if str(output) != "-" and file_format != "parquet":
        with atomic_writer(_labels_file(output)) as file:
            names = {"label": examples.label, "label_names": examples.labels.names}
            file.write(json.dumps(names, ensure_ascii=False) + "\n")
    with open_table(output, file_format, schema, scratch) as write:
        for batch in joined_batches(spool, examples, rows, settings, schema):
            write(batch)


@contextmanager
def input_on_disk(source: str | Path) -> Iterator[Path]:
    """The input as a file that can be read twice. A pipe is copied to a temporary file."""
    if str(source) != "-":
        path = checked_path(source)
        if path.is_dir():
            raise LindaError(f"{source} is a folder; give a file")
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


def spooled(
    settings: AugmentationSettings, path: Path, file_format: str, spool: Path, name: str | None = None
) -> Spool:
    """Copy a table to an Arrow file for access by row number.

    Args:
        settings: Name the text columns.
        path: The table.
        file_format: Its format: csv, tsv, jsonl or parquet.
        spool: The Arrow file. If it exists, from an interrupted run, it is used as it is.
        name: Name of the table in messages.

    Returns:
        The rows.

    Example:
        spooled(AugmentationSettings(), Path("train.csv"), "csv", Path("train.arrow"))
    """
    if not spool.exists():
        write_spool(spool, *read_table(path, file_format, settings.text_columns, name))
    return Spool(spool)


# --- checks before the work begins ----------------------------------------------------------------------------


def _check_output(source: str | Path, output: str | Path, output_format: str, needs_journal: bool) -> None:
    if str(output) == "-":
        if needs_journal:
            raise LindaError("a run that writes to standard output cannot be resumed; give a file with --output")
        return
    checked_target(output)
    check_other_file(source, output)
    if output_format != "parquet":
        _check_labels_file(source, output)


def _check_labels_file(source: str | Path, output: str | Path) -> None:
    """The file with the class names may replace an earlier one, and nothing else."""
    path = _labels_file(output)
    check_other_file(source, path)
    if not checked_target(path).exists():
        return
    try:
        is_ours = set(read_json_object(path)) == {"label", "label_names"}
    except LindaError:
        is_ours = False
    if not is_ours:
        raise LindaError(f"{path} exists and does not hold class names; move it, or give another --output")


def _labels_file(output: str | Path) -> Path:
    return Path(f"{output}.labels.json")


def _check_values(spool: Spool, output_format: str) -> None:
    first = 0
    for batch in spool.batches():
        check_writable(batch, output_format, first)
        first += len(batch)


def _check_disk_space(journal: Journal, new_per_row: float) -> None:
    originals = journal.input.stat().st_size
    needed = originals * (1 + 2 * new_per_row)  # the output, and the new rows in the journal once more
    free = shutil.disk_usage(journal.folder).free
    if free < needed:
        raise LindaError(
            f"about {needed / 1e6:,.0f} MB are needed in {journal.folder.parent}, {free / 1e6:,.0f} MB are free; "
            "free some space first"
        )


@contextmanager
def _full_disk_reported() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise LindaError("the disk is full; free some space, then continue with --resume") from error


# --- the run and its journal ----------------------------------------------------------------------------------


@contextmanager
def _journal(output: str | Path, run: dict[str, Any], *, resume: bool, restart: bool) -> Iterator[Journal]:
    """The journal next to the output, or a temporary one for standard output. It is deleted after a complete run."""
    if str(output) == "-":
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(Path(folder) / "journal")
            journal.begin(run, resume=False, restart=False)
            yield journal
        return
    journal = Journal.for_output(Path(output).resolve())
    journal.begin(run, resume=resume, restart=restart)
    try:
        yield journal
    except BaseException:
        journal.give_up()
        raise
    journal.remove()


def _run(settings: AugmentationSettings, source: Path, source_format: str, plan: Plan | None) -> dict[str, Any]:
    """Everything that the rows depend on. A resumed run must have the same values."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings) if field.name not in EXECUTION}
    values |= {name: _state(values[name]) for name in ("model", "teacher", "encoder")}
    if isinstance(settings.unlabelled, str | Path):
        values |= {"unlabelled": _file_digest(Path(settings.unlabelled))}
    values |= {"protect": [*settings.protected.words, *settings.protected.patterns]}
    values |= {"translate": [_state(model) for model in settings.translate or ()]}
    values |= {"method": settings.method_name, "gates": asdict(settings.gates), "engine": settings.engine_name}
    columns = [] if plan is None else [plan.row, plan.partner, plan.alpha, plan.seed]
    return {
        "linda": __version__,
        "input": _file_digest(source),
        "input format": source_format,
        "plan": [hashlib.sha256(column.tobytes()).hexdigest() for column in columns],
        **values,
    }


def _file_digest(path: Path) -> str:
    if not path.is_file():
        raise LindaError(f"there is no file {path}")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _state(model: Any) -> Any:
    """Of a folder: its name, and name, size and time of each of its files. Of an object: the name of its class."""
    if model is None:
        return None
    if not isinstance(model, str | Path):
        return type(model).__name__
    if not Path(model).is_dir():
        return str(model)
    files = sorted(file for file in Path(model).iterdir() if file.is_file())
    return [str(model), *([file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files)]


def _generate(
    augmenter: Augmenter, examples: Examples, plan: Plan, journal: Journal, planner: BalancedPlanner | None
) -> None:
    """Append the chunks of the plan that are missing in the journal."""
    if journal.rows_done() == len(plan) and (planner is None or not len(plan)):
        return
    teacher = _teacher(augmenter, examples, journal)
    with augmenter.writing() as write_all:
        done = journal.chunks()
        for chunk in augment_rows(examples, plan, augmenter, write_all, teacher, done, planner):
            journal.append(chunk)


def _teacher(settings: AugmentationSettings, examples: Examples, journal: Journal) -> Any:
    """The teacher. One that is fine-tuned here is kept in the journal, because a resumed run needs the same one."""
    if settings.labels != "predicted" or settings.teacher is not None:
        return find_teacher(examples, settings)
    if not journal.teacher.exists():
        find_teacher(examples, settings).save(journal.teacher)
    return find_teacher(examples, replace(settings, teacher=journal.teacher))


def _neighbours(settings: AugmentationSettings, examples: Examples, journal: Journal) -> np.ndarray | None:
    """The nearest rows. They are kept in the journal, because rounding errors differ between machines."""
    if journal.neighbours.exists():
        return np.asarray(np.load(journal.neighbours))
    neighbours = find_neighbours(examples, settings)
    if neighbours is not None:
        with atomic_path(journal.neighbours) as part, part.open("wb") as file:
            np.save(file, neighbours)
    return neighbours
