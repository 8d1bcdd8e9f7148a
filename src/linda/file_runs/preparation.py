"""The preparation of a run, done once: the input is checked, counted and cut into blocks."""

import hashlib
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from linda import __version__
from linda.augmentation import Augmenter
from linda.augmentation.pipeline import checked_examples
from linda.augmentation.settings import EXECUTION, AugmentationSettings
from linda.augmentation.tables import joined_schema
from linda.augmentation.teacher import find_teacher
from linda.errors import LindaError
from linda.file_runs.blocks import BlockedTable
from linda.file_runs.parts import Manifest, PartsFolder
from linda.files.inputs import InputFile, read_files
from linda.files.paths import file_digest
from linda.files.shuffle import shuffled
from linda.files.spool import Spool, cut, write_spool
from linda.files.tables import check_writable
from linda.planning.examples import Examples
from linda.planning.labels import LabelName, MultiLabels
from linda.planning.plan import Plan

WEIGHT_BITS = "int8_weight_bits"  # of the machine that began a run


def run_values(
    settings: AugmentationSettings,
    files: Sequence[InputFile],
    plan: Plan | None,
    block_rows: int,
    shuffle: bool = False,
    known: Manifest | None = None,
) -> dict[str, Any]:
    """Collect everything that the rows depend on. Runs with the same values write the same parts.

    Args:
        settings: The settings.
        files: The input.
        plan: The plan, if it is given.
        block_rows: Rows per block.
        shuffle: Whether the rows are shuffled first.
        known: Manifest of an earlier run. If its input has not changed since, it is not read again.

    Returns:
        Values that can be written as JSON.

    Example:
        run_values(AugmentationSettings(), files, None, 100_000)["seed"]  # 0
    """
    values = {field.name: getattr(settings, field.name) for field in fields(settings) if field.name not in EXECUTION}
    values |= {name: _model_state(values[name]) for name in ("model", "teacher", "encoder")}
    if isinstance(settings.unlabelled, str | Path):
        values |= {"unlabelled": file_digest(settings.unlabelled)}
    if settings.trigrams is not None:
        values |= {"trigrams": file_digest(settings.trigrams)}
    values |= {"protect": [*settings.protected.words, *settings.protected.patterns]}
    values |= {"translate": [_model_state(model) for model in settings.translate or ()]}
    values |= {"method": settings.method_name, "gates": asdict(settings.gates), "engine": settings.engine_name}
    if settings.engine_name == "int8":
        values |= {WEIGHT_BITS: _weight_bits()}
    columns = () if plan is None else plan.columns
    is_known = known is not None and known.input_state == _input_state(files)
    return {
        "linda": __version__,
        "input": known.run["input"] if known is not None and is_known else [file.digest() for file in files],
        "input format": [file.file_format for file in files],
        "block_rows": block_rows,
        "shuffle": shuffle,
        "plan": [hashlib.sha256(column.tobytes()).hexdigest() for column in columns],
        **values,
    }


def check_processor(run: dict[str, Any]) -> None:
    """Raise a `LindaError` if the int8 engine may write other texts here than on the machine that began the run.

    Args:
        run: Result of `run_values` on that machine.

    Example:
        check_processor(manifest.run)
    """
    begun = run.get(WEIGHT_BITS)
    if begun is not None and begun != (here := _weight_bits()):
        raise LindaError(
            f"the int8 engine of {socket.gethostname()} has {here}-bit weights, this run {begun}-bit ones, so texts "
            "could differ; use machines with the same kind of processor, or start over with --engine torch"
        )


def _weight_bits() -> int:
    from linda.engines.linear import weight_bits  # imports torch, which EDA does not need

    return weight_bits()


def prepare(
    folder: PartsFolder,
    settings: AugmentationSettings,
    files: Sequence[InputFile],
    name: str,
    run: dict[str, Any],
    output_format: str,
) -> Manifest:
    """Read the input, check and count its rows, and write each block to the folder of the run.

    Args:
        folder: The folder of the run.
        settings: The settings, which name the columns.
        files: The input.
        name: Name of the input in messages.
        run: Result of `run_values`.
        output_format: Format of the output. Values that it cannot represent are an error.

    Returns:
        The manifest. It is written last: without it, the rest is ignored.

    Example:
        prepare(PartsFolder("out"), settings, files, "train.csv", run, "parquet")
    """
    first_row, sizes, examples = 0, [], None
    found: set[LabelName] = set()
    known_kind: str | None = None
    rows = read_files(files, settings.text_columns)
    if run["shuffle"]:
        rows = shuffled(rows, settings.seed, folder.work)
    for number, batches in enumerate(cut(rows, run["block_rows"])):
        if run["shuffle"]:
            batches, numbers = _without_numbers(batches)
            folder.write_row_numbers(number, numbers)
        first = next(batches)
        with folder.storage.writing(folder.block_input(number)) as path:
            write_spool(path, first.schema, chain([first], batches))
            spool = Spool(path)
            row_numbers = numbers.tolist() if run["shuffle"] else range(first_row, first_row + len(spool))
            examples = _checked_examples(spool, settings, name, row_numbers)
            kind = _label_kind(examples)
            if None not in (kind, known_kind) and kind != known_kind:
                raise LindaError(
                    f"{name}: labels are of type {kind} from row {row_numbers[0]} on, earlier ones of type "
                    f"{known_kind}; use one type"
                )
            known_kind = kind or known_kind
            found |= set(examples.labels.names if kind else ())
            sizes.append((len(spool), examples.skipped, examples.labels.counts(), _sets(examples)))
            done = 0
            for batch in spool.batches():
                check_writable(batch, output_format, row_numbers[done : done + len(batch)])
                done += len(batch)
            first_row += done
    assert examples is not None  # a file without rows is an error
    classes = tuple(sorted(found) if settings.classes is None else settings.classes)
    table = BlockedTable.of(
        classes,
        ((rows, skipped, [own.get(c, 0) for c in classes], *sets) for rows, skipped, own, sets in sizes),
    )
    schema = joined_schema(spool, replace(examples, labels=replace(examples.labels, names=classes)), settings)
    manifest = Manifest(run, table, schema, _input_state(files))
    folder.write_manifest(manifest)
    return manifest


def _without_numbers(batches: Iterable[pa.RecordBatch]) -> tuple[Iterator[pa.RecordBatch], NDArray[np.int64]]:
    """Return the batches of a shuffled block, and the numbers of their rows in the input."""
    block = list(batches)
    numbers = np.concatenate([batch.column(batch.num_columns - 1).to_numpy() for batch in block])
    return (batch.select(range(batch.num_columns - 1)) for batch in block), numbers


def _checked_examples(table: Spool, settings: AugmentationSettings, name: str, row_numbers: Sequence[int]) -> Examples:
    """Check the rows. Errors name the file."""
    try:
        return checked_examples(table, settings, row_numbers=row_numbers)
    except LindaError as error:
        counted = " (the first row is row 0)" if str(error).startswith("row ") else ""
        raise LindaError(f"{name}: {error}{counted}") from error


def with_teacher(augmenter: Augmenter, folder: PartsFolder, manifest: Manifest) -> Augmenter:
    """Add a teacher, if one is needed. It is fine-tuned on the first block and kept in the folder."""
    settings = augmenter.settings
    if settings.labels != "predicted" or settings.teacher is not None:
        return augmenter
    if folder.teacher is None:
        raise LindaError(
            f"a fine-tuned teacher cannot be stored in {folder}; give one that all machines can read (--teacher)"
        )
    if not folder.teacher.exists():
        first = manifest.table.blocks[0].counts
        absent = [name for name, count in manifest.table.counts.items() if count and not first[name]]
        if absent:
            raise LindaError(
                f"the teacher is fine-tuned on the first block, which has no row with the label {absent[0]!r}; "
                "shuffle the table (--shuffle), or give a teacher (--teacher)"
            )
        with folder.storage.reading(folder.block_input(0)) as path:
            examples = checked_examples(Spool(path), settings, manifest.table.classes)
            find_teacher(examples, settings).save(folder.teacher)
    return Augmenter(settings, teacher=folder.teacher)


def _label_kind(examples: Examples) -> str | None:
    """Describe the type of the labels of these rows, for messages; None if there are none."""
    labels = examples.labels
    if not labels.names or not len(examples.kept):
        return None
    is_vector = labels.kind != "names" if isinstance(labels, MultiLabels) else labels.soft is not None
    return f"list of {len(labels.names)} numbers" if is_vector else type(labels.names[0]).__name__


def _sets(examples: Examples) -> list[tuple[int, int]]:
    """Return `Block.sets` as a list of one, or an empty list if rows have one class each."""
    if not isinstance(examples.labels, MultiLabels):
        return []
    rows = np.bincount(examples.labels.codes[examples.kept])
    return [(int((rows == 1).sum()), int((rows > 1).sum()))]


def _input_state(files: Sequence[InputFile]) -> list[Any]:
    return [[file.place, *file.state()] for file in files]


def _model_state(model: Any) -> Any:
    """Identify a model: a folder by a digest of its files, an object by its class, a hub name by itself."""
    if model is None:
        return None
    if not isinstance(model, str | Path):
        return type(model).__name__
    if not Path(model).is_dir():
        return str(model)
    digest = hashlib.sha256()
    for file in sorted(file for file in Path(model).iterdir() if file.is_file()):
        digest.update(file.name.encode() + b"\0" + bytes.fromhex(file_digest(file)))
    return digest.hexdigest()
