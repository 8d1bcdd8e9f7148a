"""Everything that the server needs from `linda.augmentation`: tables in files and in requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linda import methods
from linda.augmentation import Augmenter
from linda.augmentation.gates import Gates
from linda.augmentation.summary import RunSummary
from linda.errors import LindaError
from linda.file_runs.file_pipeline import augment_file, draw_table_plan
from linda.files.tables import column_values, find_format, read_table
from linda.web.interpolation import SharedInterpolator
from linda.web.origins import word_origins

# Rows that a run decodes at a time: how often progress is reported and a stop is noticed. Does not affect the rows.
_TABLE_BATCH = 16


class StoppedError(Exception):
    """The run was stopped by the user."""


@dataclass(eq=False)
class Progress:
    """Progress of a run, and whether it should stop. Set by one thread, read by others."""

    done: int = 0
    total: int | None = None

    def __post_init__(self) -> None:
        self._stop = threading.Event()

    def stop(self) -> None:
        self._stop.set()

    def check(self) -> None:
        if self._stop.is_set():
            raise StoppedError


class _Observed(methods.AugmentationMethod):
    """A method that can be stopped, and counts the rows that it has written."""

    def __init__(self, method: Any, progress: Progress, rows_per_text: float) -> None:
        self._method = method
        self._progress = progress
        self._rows_per_text = rows_per_text
        self.name: str = method.name
        self.needs_partner: bool = method.needs_partner

    def texts(
        self, a: Sequence[str], b: Sequence[str] | None, alpha: Sequence[float] | None, seeds: Sequence[int]
    ) -> list[str]:
        self._progress.check()
        texts: list[str] = self._method.texts(a, b, alpha, seeds)
        self._progress.done += int(len(a) * self._rows_per_text)
        return texts

    @property
    def sampling(self) -> _Observed:
        """The method for retries, which do not count as progress."""
        return _Observed(self._method.sampling, self._progress, rows_per_text=0)


@dataclass(frozen=True)
class LoadedMethods:
    """What the server loads once, for all callers."""

    model: SharedInterpolator
    crossover: methods.AugmentationMethod | None = None  # None: the server was started without a trigram table

    def find(self, name: str, raw: bool) -> methods.AugmentationMethod:
        if name == "linda":
            return methods.load(name, model=self.model, raw=raw)
        if name != "crossover":
            return methods.load(name)
        if self.crossover is None:
            raise LindaError(
                "crossover needs a trigram table; start the server with --trigrams TABLE (`linda middles table` builds "
                "one)"
            )
        return self.crossover


def make_augmenter(settings: dict[str, Any], loaded: LoadedMethods, progress: Progress) -> Augmenter:
    """Create an augmenter. settings: those of `Augmenter`, with the gates as {"copies": True, …}."""
    given = dict(settings)
    name, raw, gates = given.pop("method"), given.pop("raw_ratio"), given.pop("gates")
    observed = _Observed(loaded.find(name, raw), progress, rows_per_text=1 if given["pair"] is None else 1 / 2)
    return Augmenter(**given, gates=Gates(**gates), method=observed, batch_size=_TABLE_BATCH)


@dataclass(frozen=True)
class TableFile:
    """An uploaded table. `name` is the user's name of the file; `path` is where it is stored."""

    path: Path
    name: str
    file_format: str
    columns: list[str]
    rows: int
    first_rows: list[dict[str, Any]]


def table_format(name: str) -> str:
    """Infer the format from the name of an upload."""
    if name.lower().endswith((".gz", ".xz")):
        raise LindaError(f"{name} is compressed; unpack it first, or use `linda augment`")
    return find_format(name)


def read_table_file(path: Path, name: str, file_format: str, most_rows: int, shown: int = 5) -> TableFile:
    """Read a whole table once, so that a damaged one is rejected when it is uploaded.

    Args:
        path: Where it is stored.
        name: The user's name of the file, for messages.
        file_format: csv, tsv, jsonl or parquet.
        most_rows: Maximum number of rows.
        shown: Number of first rows to keep for the page.

    Returns:
        The table's columns, its number of rows, and its first rows.

    Example:
        read_table_file(folder / "input.csv", "reviews.csv", "csv", most_rows=1_000_000)
    """
    count = 0
    first: list[dict[str, Any]] = []
    with _named(path, name):
        schema, batches = read_table(path, file_format, texts=(), name=name)
        for batch in batches:
            if len(first) < shown:
                columns = {column: column_values(batch, column) for column in schema.names}
                first += [
                    {column: _shown(values[row]) for column, values in columns.items()}
                    for row in range(min(shown - len(first), len(batch)))
                ]
            count += len(batch)
            if count > most_rows:
                raise LindaError(f"{name} has more than {most_rows:,} rows; use `linda augment`")
    return TableFile(path, name, file_format, list(schema.names), count, first)


def run_table(
    table: TableFile, output: Path, output_format: str, augmenter: Augmenter, progress: Progress
) -> RunSummary:
    """Write the file that `linda augment` writes with these settings.

    Args:
        table: The upload.
        output: The output file, in a folder of the run.
        output_format: csv, tsv, jsonl or parquet.
        augmenter: From `make_augmenter`, with the same progress.
        progress: Receives the number of planned rows.

    Returns:
        Counts of new and rejected rows.

    Example:
        run_table(table, folder / "output.csv", "csv", make_augmenter(settings, loaded, progress), progress)
    """
    with _named(table.path, table.name):
        plan = draw_table_plan(augmenter, table.path, table.file_format)
        progress.total = len(plan)
        return augment_file(
            augmenter, table.path, output, source_format=table.file_format, output_format=output_format, plan=plan
        )


def preview_table(
    table: TableFile, folder: Path, augmenter: Augmenter, progress: Progress, rows: int = 20
) -> dict[str, Any]:
    """Compute the first new rows of a run, with their parents and counts.

    Args:
        table: The upload.
        folder: A folder for temporary files.
        augmenter: From `make_augmenter`, with the same progress.
        progress: Receives the number of planned rows.
        rows: Number of plan rows.

    Returns:
        Values for JSON: `rows` (texts, origins of their words, labels, ratio, parents), `label_names`, counts.

    Example:
        preview_table(table, folder, make_augmenter(settings, loaded, progress), progress)
    """
    output = folder / "preview.jsonl"
    with _named(table.path, table.name):
        whole = draw_table_plan(augmenter, table.path, table.file_format)
        plan = whole[:rows]
        progress.total = len(plan)
        summary = augment_file(
            Augmenter(augmenter.settings, only_new=True),
            table.path,
            output,
            source_format=table.file_format,
            output_format="jsonl",
            plan=plan,
        )
    new = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    output.unlink()
    columns, label = augmenter.settings.text_columns, augmenter.settings.label
    numbers = {row[key] for row in new for key in ("parent_a", "parent_b")}
    parents = _rows_of(table, numbers, columns, label)
    return {
        "rows": [_preview_row(row, parents, columns, label) for row in new],
        "label_names": list(summary.counts),
        "planned_in_all": len(whole),
        **summary_values(summary),
    }


def _preview_row(
    row: dict[str, Any], parents: dict[int, dict[str, Any]], columns: Sequence[str], label: str
) -> dict[str, Any]:
    own = [parents[row[key]] for key in ("parent_a", "parent_b") if row[key] is not None]
    first, second = own[0]["texts"], own[-1]["texts"] if len(own) > 1 else [""] * len(columns)
    return {
        "texts": [row[column] for column in columns],
        "words": [word_origins(row[column], a, b) for column, a, b in zip(columns, first, second, strict=True)],
        "label": row[label],
        "label_probs": row["label_probs"],
        "alpha": row["alpha"],
        "parents": own,
    }


def summary_values(summary: RunSummary) -> dict[str, Any]:
    tally = summary.tally
    return {
        "planned": tally.planned,
        "made": tally.made,
        "seconds": round(summary.seconds, 1),
        "gates": {gate: {"stopped": tally.stopped[gate], "left_out": tally.left_out[gate]} for gate in Gates.names()},
    }


def _rows_of(
    table: TableFile, wanted: set[int | None], columns: Sequence[str], label: str
) -> dict[int, dict[str, Any]]:
    """Return rows by number: the texts in these columns, and the label."""
    _, batches = read_table(table.path, table.file_format, texts=columns, name=table.name)
    found: dict[int, dict[str, Any]] = {}
    first = 0
    for batch in batches:
        here = [row for row in wanted if row is not None and first <= row < first + len(batch)]
        if here:
            texts = [column_values(batch, column) for column in columns]
            labels = column_values(batch, label)
            for row in here:
                place = row - first
                found[row] = {"row": row, "texts": [column[place] for column in texts], "label": _shown(labels[place])}
        first += len(batch)
    return found


def _shown(value: Any) -> Any:
    """Return a value as the page shows it: what JSON cannot represent, such as bytes, is formatted by Python."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
        text.encode()
    except (TypeError, ValueError):  # a lone surrogate, or keys that are not strings
        return repr(value)
    return json.loads(text)


@contextmanager
def _named(path: Path, name: str) -> Iterator[None]:
    """Replace the path in errors by the user's name of the file."""
    try:
        yield
    except LindaError as error:
        raise LindaError(str(error).replace(str(path), name)) from error
