"""The pipeline on files: block by block, streamed, and resumable after a crash.

The input is cut into blocks (`preparation`), and an executor writes the part of each block (`block_pipeline`). The
parts are the output, or are joined to one file, which appears under its name only when it is complete.
"""

import errno
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import NoneType

import numpy as np

from linda.augmentation import Augmenter
from linda.augmentation.pipeline import check_no_balance, checked_examples
from linda.augmentation.settings import AugmentationSettings
from linda.augmentation.summary import RunSummary, Tally
from linda.errors import LindaError, checked_integer, checked_kind, shortened
from linda.file_runs import blocks
from linda.file_runs.block_pipeline import write_parts_here
from linda.file_runs.blocks import BLOCK_ROWS
from linda.file_runs.parts import Manifest, PartsFolder
from linda.file_runs.preparation import WEIGHT_BITS, check_processor, prepare, run_values, with_teacher
from linda.files.inputs import InputFile, input_files
from linda.files.jsonfile import read_json_object
from linda.files.paths import checked_output_path
from linda.files.spool import Spool
from linda.files.storage import check_url, is_url
from linda.files.tables import find_format, open_table
from linda.files.textio import atomic_writer, check_other_file, checked_target, display_name
from linda.planning.balance import rows_to_make
from linda.planning.examples import table_notes
from linda.planning.plan import Plan

_MOST_ROWS = 10**9  # in a block; also the largest number of a block

# Writes the parts of these blocks. All data are in the folder: an executor only decides where the work is done.
Executor = Callable[[PartsFolder, Manifest, Augmenter, Plan | None, Sequence[int]], None]


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
    block_rows: int = BLOCK_ROWS,
    shuffle: bool = False,
    block_range: tuple[int, int] | None = None,
    join: bool = False,
    executor: Executor = write_parts_here,
    on_note: Callable[[str], object] = lambda note: None,
) -> RunSummary:
    """Read a table, make new rows and write both.

    Args:
        augmenter: The settings, and the model if it is loaded.
        source: Input file: CSV, TSV, JSON lines (also .gz and .xz) or Parquet, by its name; a folder of such files; `-`
            for standard input. Files and folders may be URLs (s3://, gs://, hdfs://, …).
        output: Output file, likewise; `-` for standard output. A name that ends in `/` is a folder of parts, in
            Parquet; it may be a URL.
        source_format: Format of the input, if its name does not show it: csv, tsv, jsonl or parquet.
        output_format: Format of the output, likewise.
        plan: Which rows to mix, and at which ratio. By default it is drawn.
        resume: Continue an unfinished run with the same settings.
        restart: Delete an unfinished run and start over.
        block_rows: Rows per block. A row is mixed with rows of its block, and compared with them.
        shuffle: Shuffle the rows, by the seed, before they are cut into blocks.
        block_range: Compute only the blocks from the first number up to the second (excluded). Several processes can
            share the work; `join` completes it.
        join: Check that all parts exist, and join them to the output.
        executor: Computes the parts; by default on this machine.
        on_note: Called with each message for the user.

    Returns:
        Counts of the run. `str` formats them.

    Example:
        print(linda.augment_file(linda.Augmenter(per_row=2), "train.csv", "bigger.parquet"))
    """
    start = time.monotonic()
    checked_kind(augmenter, "augmenter", Augmenter, "a linda.Augmenter")
    request = _Request(source, output, plan, block_rows, shuffle, block_range, join, resume, restart)
    settings = augmenter.settings
    if plan is not None:
        check_no_balance(settings)
    if str(output) != "-":  # the name tells the format before anything is read
        output_format = "parquet" if request.is_folder else find_format(output, output_format)
        if output_format != "parquet":
            _check_labels_file(source, output)
    with input_files(source, source_format) as files, _full_disk_reported():
        output_format = output_format or files[0].file_format
        with _run_folder(request) as folder:
            manifest, augmenter = _prepared(folder, augmenter, files, request, output_format)
            for note in _notes(manifest, settings, plan_is_given=plan is not None):
                on_note(note)
            numbers = request.chosen(manifest)
            missing = request.missing(folder, manifest)
            # Before anything is computed: a part of another run is an error.
            tally = folder.tally(manifest, sorted(set(numbers) - set(missing)))
            if missing:
                _check_disk_space(folder, manifest, settings, plan)
                executor(folder, manifest, augmenter, plan, missing)
                tally += folder.tally(manifest, missing)
            if block_range is None and not request.is_folder:
                write_output(output, output_format, folder, manifest, settings)
    return _summary(manifest, numbers, tally, time.monotonic() - start, settings)


def _summary(
    manifest: Manifest, numbers: Sequence[int], tally: Tally, seconds: float, settings: AugmentationSettings
) -> RunSummary:
    """Summarize these blocks."""
    table = manifest.table
    chosen = [table.blocks[number] for number in numbers]
    counts = {name: sum(block.counts[name] for block in chosen) for name in table.classes}
    rows, skipped = sum(block.rows for block in chosen), sum(block.skipped for block in chosen)
    wanted = None
    if settings.balance is not None:
        none = np.zeros(len(table.classes), dtype=np.int64)
        wanted = sum((blocks.rows_for_block(settings, block, table) for block in chosen), none)
    return RunSummary(rows, skipped, counts, tally, seconds, settings, wanted)


def write_output(
    output: str | Path, file_format: str, folder: PartsFolder, manifest: Manifest, settings: AugmentationSettings
) -> None:
    """Join the parts to one file. The class names are in the metadata of Parquet, otherwise in `OUT.labels.json`."""
    if str(output) != "-" and file_format != "parquet":
        with atomic_writer(_labels_file(output)) as file:
            names = {"label": settings.label, "label_names": manifest.table.classes}
            file.write(json.dumps(names, ensure_ascii=False) + "\n")
    with open_table(output, file_format, manifest.schema, folder.storage.local) as write:
        for batch in folder.read_parts(manifest):
            write(batch)


def draw_table_plan(
    augmenter: Augmenter,
    source: str | Path,
    source_format: str | None = None,
    block_rows: int = BLOCK_ROWS,
) -> Plan:
    """Draw the plan of a table, without writing any text.

    Args:
        augmenter: Its settings say which partners, how many and at which ratio.
        source: The table, as for `augment_file`.
        source_format: Its format, if its name does not show it.
        block_rows: Rows per block.

    Returns:
        The plans of all blocks, one after the other.

    Example:
        print(draw_table_plan(linda.Augmenter(seed=7), "train.csv"))
    """
    settings = augmenter.settings
    with tempfile.TemporaryDirectory() as name, input_files(source, source_format) as files:
        folder = PartsFolder(name)
        run = run_values(settings, files, None, block_rows)
        table = prepare(folder, settings, files, display_name(source), run, "parquet").table
        blocks.check_settings(table, settings)
        plans = []
        for block in table.blocks:
            with folder.storage.reading(folder.block_input(block.number)) as path:
                examples = checked_examples(Spool(path), settings, table.classes)
                plan, _ = blocks.plan_block(examples, settings, block, table)
            plans.append(plan.shifted(block.first_row))
    return Plan.joined(plans)


# --- the request ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Request:
    """The arguments of `augment_file`, checked before any file is read."""

    source: str | Path
    output: str | Path
    plan: Plan | None
    block_rows: int
    shuffle: bool
    block_range: tuple[int, int] | None
    join: bool
    resume: bool
    restart: bool

    @property
    def is_folder(self) -> bool:
        """Whether the output is a folder of parts."""
        return str(self.output).endswith("/")

    def __post_init__(self) -> None:
        for name in ("source", "output"):
            checked_kind(getattr(self, name), name, (str, Path), "the name of a file or folder")
            if is_url(getattr(self, name)):
                check_url(str(getattr(self, name)))
        checked_kind(self.plan, "plan", (Plan, NoneType), "a linda.Plan, such as Plan.read(FILE)")
        checked_integer(self.block_rows, "block_rows", 1, _MOST_ROWS)
        if self.block_range is not None:
            wanted = "two block numbers, such as (0, 40)"
            checked_kind(self.block_range, "block_range", (tuple, list), wanted)
            if len(self.block_range) != 2:
                raise LindaError(f"block_range is {shortened(self.block_range)}; it must be {wanted}")
            for number in self.block_range:
                checked_integer(number, "block_range", 0, _MOST_ROWS)
        if self.shuffle and self.plan is not None:
            raise LindaError(
                "a plan refers to rows by their position in the input, which --shuffle changes; leave one of them out"
            )
        if self.block_range is not None and self.join:
            raise LindaError("--block-range computes some of the parts, --join needs all of them; give only one")
        if self.block_range is not None and self.restart:
            raise LindaError("--restart deletes the parts of all ranges; give it without --block-range")
        if str(self.output) == "-":
            if self.resume or self.restart or self.join or self.block_range is not None:
                raise LindaError("a run that writes to standard output cannot be resumed; give a file with --output")
            return
        if self.is_folder:
            if not is_url(self.output):
                checked_output_path(self.output)
            return
        if is_url(self.output):
            raise LindaError(f"cannot write {self.output}: a remote output is a folder of parts; end it in /")
        checked_target(self.output)
        if not is_url(self.source):
            check_other_file(self.source, self.output)

    def chosen(self, manifest: Manifest) -> list[int]:
        """Return the numbers of the blocks of this run."""
        count = len(manifest.table.blocks)
        first, stop = self.block_range or (0, count)
        if first > count or first > stop:
            raise LindaError(
                f"the block range is {first}:{stop}; the table has the blocks 0:{count}, give a range of these"
            )
        return list(range(first, min(stop, count)))

    def missing(self, folder: PartsFolder, manifest: Manifest) -> list[int]:
        """Return the numbers of the blocks to compute."""
        return [] if self.join else sorted(set(folder.missing(manifest)) & set(self.chosen(manifest)))


def _check_labels_file(source: str | Path, output: str | Path) -> None:
    """Check that the file with the class names replaces nothing but an earlier one."""
    path = _labels_file(output)
    check_other_file(source, path)
    if not checked_target(path).exists():
        return
    try:
        is_ours = set(read_json_object(path)) == {"label", "label_names"}
    except LindaError:
        is_ours = False
    if not is_ours:
        raise LindaError(f"{path} exists and does not contain class names; move it, or give another --output")


def _labels_file(output: str | Path) -> Path:
    return Path(f"{output}.labels.json")


# --- the folder of the run ------------------------------------------------------------------------------------


@contextmanager
def _run_folder(request: _Request) -> Iterator[PartsFolder]:
    """Yield the folder of the parts: the output itself, or one next to it, which is deleted after a complete run."""
    if str(request.output) == "-":
        with tempfile.TemporaryDirectory() as name:
            yield PartsFolder(name)
        return
    if request.is_folder:
        folder = PartsFolder(str(request.output).rstrip("/"), is_output=True)
    else:
        path = Path(request.output).resolve()
        folder = PartsFolder(path.with_name(f".{path.name}.linda-journal"))  # a hidden name that is unlikely to collide
    is_shared = request.block_range is not None
    if not is_shared:
        folder.take()
    try:
        yield folder
    except BaseException:
        if is_shared:
            folder.release()
        else:
            folder.give_up()
        raise
    if is_shared:
        folder.release()
    elif request.is_folder:
        folder.finish()
    else:
        folder.remove()


def _prepared(
    folder: PartsFolder, augmenter: Augmenter, files: Sequence[InputFile], request: _Request, output_format: str
) -> tuple[Manifest, Augmenter]:
    """Return the manifest, and the augmenter with its teacher, if any. The first of several processes prepares both."""
    settings, is_shared = augmenter.settings, request.block_range is not None
    if is_shared:
        folder.share(lambda: _is_ready(folder, folder.manifest(), settings, request))
    known = folder.manifest()
    run = run_values(settings, files, request.plan, request.block_rows, request.shuffle, known)
    if known is not None and WEIGHT_BITS in run and not request.restart:
        if request.missing(folder, known):
            check_processor(known.run)
        run[WEIGHT_BITS] = known.run.get(WEIGHT_BITS)  # any machine can join parts
    manifest = folder.begin(run, resume=request.resume or request.join or is_shared, restart=request.restart)
    if manifest is None or not _is_ready(folder, manifest, settings, request):
        if request.join:
            raise LindaError(f"{folder} contains no parts; compute them first, without --join")
        manifest = prepare(folder, settings, files, display_name(request.source), run, output_format)
        if request.missing(folder, manifest):
            with_teacher(augmenter, folder, manifest)
    if is_shared:
        folder.take(shared=True)
    blocks.check_settings(manifest.table, settings)
    if request.plan is not None:
        blocks.check_given_plan(request.plan, manifest.table)
    if request.missing(folder, manifest):
        augmenter = with_teacher(augmenter, folder, manifest)
    return manifest, augmenter


def _is_ready(
    folder: PartsFolder, manifest: Manifest | None, settings: AugmentationSettings, request: _Request
) -> bool:
    """Whether the folder has everything that the missing parts need."""
    if manifest is None:
        return False
    missing = request.missing(folder, manifest)
    if any(not folder.storage.exists(folder.block_input(number)) for number in missing):
        return False
    needs_teacher = bool(missing) and settings.labels == "predicted" and settings.teacher is None
    return not needs_teacher or (folder.teacher is not None and folder.teacher.exists())


def _notes(manifest: Manifest, settings: AugmentationSettings, *, plan_is_given: bool) -> Iterator[str]:
    table = manifest.table
    if len(table.blocks) > 1:
        yield f"{len(table.blocks):,} blocks of {table.blocks[0].rows:,} rows"
    yield from table_notes(table.skipped, table.counts)
    if not plan_is_given:
        yield from blocks.notes(table, settings)


def _check_disk_space(
    folder: PartsFolder, manifest: Manifest, settings: AugmentationSettings, plan: Plan | None
) -> None:
    if folder.storage.local is None:
        return
    table = manifest.table
    if plan is not None:
        planned = len(plan)
    elif settings.balance is not None:
        planned = sum(rows_to_make(table.counts, settings.balance).values())
    else:
        planned = settings.total or settings.per_row * table.rows
    inputs = (folder.storage.local / folder.block_input(block.number) for block in table.blocks)
    originals = sum(path.stat().st_size for path in inputs if path.exists())
    # Parts that are joined take the space twice: the parts, and the output.
    needed = originals * (1 + planned / table.rows) * (1 if folder.is_output else 2)
    free = shutil.disk_usage(folder.storage.local).free
    if free < needed:
        where = folder.storage.local if folder.is_output else folder.storage.local.parent
        raise LindaError(
            f"about {needed / 1e6:,.0f} MB are needed in {where}, {free / 1e6:,.0f} MB are free; free some space first"
        )


@contextmanager
def _full_disk_reported() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise LindaError("the disk is full; free some space, then continue with --resume") from error
