"""Rows → plan → texts → gates → labels → rows.

The steps are functions of rows and settings: `check_rows`, `draw_plan`, `augment_rows`. `Augmenter` runs them on data
in memory, `linda.augmentation.file_pipeline` on files.

A new row depends on its plan row, its parents and the new rows before it, but not on how the plan is cut into chunks
or on the number of processes.
"""

import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from linda.augmentation.examples import RECORD, WEIGHT, Examples, Table, read_examples
from linda.augmentation.gates import Gates, Seen
from linda.augmentation.labels import LabelName, LabelRule, rounded
from linda.augmentation.plan import NoPartnerError, Plan, make_plan
from linda.augmentation.settings import AugmentationSettings
from linda.augmentation.tables import NewRow, as_table, is_a, joined, joined_lists, known_classes, new_columns
from linda.augmentation.teacher import fit_teacher, load_teacher
from linda.augmentation.texts import (
    Draft,
    TextRequest,
    WriteAll,
    Writer,
    without_duplicates,
    write_here,
    write_in_processes,
)
from linda.errors import LindaError

_LABELS_SHOWN = 12


def augment(data: Any, text: str = "text", label: str = "label", *, plan: Plan | None = None, **settings: Any) -> Any:
    """Add new rows to labelled data.

    Args:
        data: A pandas DataFrame, a `datasets.Dataset`, a `DatasetDict` (only its split "train" is augmented), or
            parallel lists as {"text": [...], "label": [...]}.
        text: Text column.
        label: Label column.
        plan: Which rows to mix, and at which ratio. By default it is drawn.
        **settings: Any other field of `Augmenter`.

    Returns:
        The originals and the new rows, of the same type as the data; for parallel lists, a list of rows.

    Example:
        bigger = linda.augment(frame, text="text", label="label", per_row=2, seed=1)
    """
    return Augmenter(text, label, **settings).augment(data, plan)


class Augmenter(AugmentationSettings):
    """Settings for repeated use: the model is loaded once. The arguments are those of `AugmentationSettings`.

    Example:
        augmenter = Augmenter(per_row=2, seed=7)
        bigger = augmenter.augment(frame)
        dataset.map(augmenter, batched=True, with_indices=True)
    """

    def augment(self, data: Any, plan: Plan | None = None) -> Any:
        """The originals and the new rows. See `linda.augment`."""
        if is_a(data, "datasets", "DatasetDict"):
            if "train" not in data:
                raise LindaError(f'the DatasetDict has no split "train", only {", ".join(data)}; give one Dataset')
            return type(data)({**data, "train": self.augment(data["train"], plan)})
        examples = check_rows(as_table(data), self, known_classes(data, self.label))
        for note in notes(examples, self, plan_is_given=plan is not None):
            warnings.warn(note, stacklevel=2)
        start = time.monotonic()
        rows, tally = self._new_rows(examples, draw_plan(examples, self) if plan is None else plan)
        if self.progress:
            seconds = time.monotonic() - start
            print(RunSummary.of(examples, tally, seconds, self.engine_name), file=sys.stderr)
        return joined(data, examples, new_columns(examples, rows, self), self.only_new)

    def __call__(self, batch: dict[str, list[Any]], indices: list[int] | None = None) -> dict[str, list[Any]]:
        """Augment a batch of `datasets.map(batched=True)`. The partners of a row are the other rows of its batch.

        With `with_indices=True`, ratios differ between batches, and parents are row numbers of the whole data set.
        """
        if self.total is not None:
            raise LindaError("total is the number of new rows of a whole table; use per_row with datasets.map")
        batch = dict(batch)  # `datasets` passes a mapping that formats its columns on access
        examples = check_rows(as_table(batch), self)
        first = indices[0] if indices else 0
        try:
            plan = draw_plan(examples, self, first=first * self.per_row)
        except NoPartnerError:  # the last batch of a data set may be a single row
            plan = Plan.of([])
        new = new_columns(examples, self._new_rows(examples, plan)[0], self)
        for parent in ("parent_a", "parent_b"):
            new[parent] = [None if row is None else row + first for row in new[parent]]
        return new if self.only_new else joined_lists(batch, examples, new)

    def writing(self) -> AbstractContextManager[WriteAll]:
        """The writer of this augmenter, or worker processes with their own writers."""
        if self.workers == 1:
            return write_here(self._writer)
        if not isinstance(self.method, str) or not isinstance(self.model, str | Path | None):
            raise LindaError("with several workers, give the method and its model by name: each worker loads its own")
        return write_in_processes(partial(_load_writer, replace(self, teacher=None)), self.workers)

    @cached_property
    def _writer(self) -> Writer:
        return _load_writer(self)

    def _new_rows(self, examples: Examples, plan: Plan) -> "tuple[list[NewRow], Tally]":
        if not len(plan):
            return [], Tally()
        plan.check_fits(examples.labels.codes)
        with self.writing() as write_all:
            chunks = list(augment_rows(examples, plan, self, write_all, find_teacher(examples, self)))
        return [row for chunk in chunks for row in chunk.rows], sum((chunk.tally for chunk in chunks), Tally())


def _load_writer(settings: AugmentationSettings) -> Writer:
    return Writer(settings.load_method(), settings.gates, settings.retries)


# --- rows → plan ----------------------------------------------------------------------------------------------


def check_rows(
    table: Table, settings: AugmentationSettings, classes: Sequence[LabelName] | None = None, first_row: int = 0
) -> Examples:
    """The rows of a table, checked.

    Args:
        table: The rows.
        settings: Name the columns.
        classes: All classes that the type of the table declares. `settings.classes` override them.
        first_row: Number of the first row in messages.

    Returns:
        The examples.

    Example:
        check_rows(ListTable({"text": ["a cat", "a dog"], "label": [0, 1]}), AugmentationSettings())
    """
    return read_examples(
        table,
        settings.text,
        settings.label,
        settings.pair,
        skip_empty=settings.skip_empty,
        classes=classes if settings.classes is None else settings.classes,
        reserved=[*RECORD] if settings.weight == 1 else [*RECORD, *WEIGHT],
        first_row=first_row,
    )


def notes(examples: Examples, settings: AugmentationSettings, *, plan_is_given: bool) -> Iterator[str]:
    """What the user should know about these rows."""
    yield from examples.notes
    if not plan_is_given:
        yield from partner_notes([examples.labels.counts()], settings)


def partner_notes(counts: Sequence[Mapping[LabelName, int]], settings: AugmentationSettings) -> Iterator[str]:
    """How many rows have no partner. `counts`: rows of each class, for each block of a table."""
    single = sum(count == 1 for block in counts for count in block.values())
    # If no class has two rows, drawing the plan raises an error.
    can_draw = any(count > 1 for block in counts for count in block.values())
    if single and can_draw and settings.mixes and settings.partners == "same":
        block = "" if len(counts) == 1 else " in their block"
        yield (
            f"{single:,} rows are the only ones with their label{block} and get no new row; "
            "--partners any includes them"
        )


def draw_plan(
    examples: Examples, settings: AugmentationSettings, *, first: int = 0, neighbours: np.ndarray | None = None
) -> Plan:
    """Draw the plan for these rows.

    Args:
        examples: The rows.
        settings: Which partners, how many and at which ratio.
        first: Offset in the random stream.
        neighbours: Result of `find_neighbours`, if it is known.

    Returns:
        The plan.

    Example:
        draw_plan(examples, AugmentationSettings(partners="any", seed=7))
    """
    return make_plan(
        examples.labels.codes,
        per_row=settings.per_row,
        total=settings.total,
        partners=settings.partners if settings.mixes else None,
        ratio=settings.ratio,
        seed=settings.seed,
        first=first,
        neighbours=find_neighbours(examples, settings) if neighbours is None else neighbours,
    )


def find_neighbours(examples: Examples, settings: AugmentationSettings) -> np.ndarray | None:
    """The nearest rows of each row; None if the plan does not need them."""
    if settings.partners != "nearest" or not settings.mixes:
        return None
    from linda.augmentation.neighbours import nearest_rows

    return nearest_rows(examples, settings.encoder, progress=settings.progress)


# --- plan → texts → gates → labels → rows ---------------------------------------------------------------------


@dataclass
class Tally:
    """Counts of plan rows and new rows. A row counts for the gate that rejected its first text."""

    planned: int = 0
    made: int = 0
    stopped: Counter[str] = field(default_factory=Counter)  # first text rejected, by gate
    left_out: Counter[str] = field(default_factory=Counter)  # all texts rejected, by the gate of the first
    labels: Counter[int] = field(default_factory=Counter)  # new rows by their most likely class

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, name) + getattr(other, name) for name in vars(self)))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Tally":
        """From `vars` of a tally that was written as JSON."""
        labels = Counter({int(code): count for code, count in values["labels"].items()})  # JSON keys are strings
        counters = {name: Counter(values[name]) for name in ("stopped", "left_out")}
        return cls(**{**values, **counters, "labels": labels})


@dataclass(frozen=True)
class Chunk:
    """The new rows of the plan rows from `start` to `stop`."""

    start: int
    stop: int
    rows: list[NewRow]
    tally: Tally


def find_teacher(examples: Examples, settings: AugmentationSettings) -> Any:
    """The teacher, loaded or fine-tuned; None if labels are not predicted."""
    if settings.labels != "predicted":
        return None
    if settings.teacher is None:
        return fit_teacher(examples, settings.encoder, seed=settings.seed, progress=settings.progress)
    is_folder = isinstance(settings.teacher, str | Path)
    return load_teacher(settings.teacher, examples.labels.names) if is_folder else settings.teacher


def augment_rows(
    examples: Examples,
    plan: Plan,
    settings: AugmentationSettings,
    write_all: WriteAll,
    teacher: Any = None,
    done: Iterable[Chunk] = (),
) -> Iterator[Chunk]:
    """Make the new rows of a plan, in order and in chunks of `settings.batch_size` plan rows.

    Args:
        examples: The rows that the plan refers to.
        plan: Which rows to mix, and at which ratio.
        settings: Gates, labels and batch size.
        write_all: From `write_here` or `write_in_processes`.
        teacher: Labels new texts if `settings.labels` is "predicted"; see `find_teacher`.
        done: The first chunks of the plan, from an interrupted run. They are not made again.

    Returns:
        The remaining chunks: new rows with their counts.

    Example:
        with write_here(Writer(method, settings.gates, settings.retries)) as write_all:
            rows = [row for chunk in augment_rows(examples, plan, settings, write_all) for row in chunk.rows]
    """
    from tqdm import tqdm

    seen, start = Seen(example for _, example in examples.scan()), 0
    for chunk in done:
        start = chunk.stop
        for row in chunk.rows:
            seen.add(row.example)
    label_rule = LabelRule(settings.labels, settings.temperature, teacher)
    parts = (plan[first : first + settings.batch_size] for first in range(start, len(plan), settings.batch_size))
    written = write_all(_requests(examples, part, settings.mixes) for part in parts)
    engine, hidden = (settings.engine_name, None) if settings.progress else (None, True)  # None: shown on a terminal
    with tqdm(desc=engine, total=len(plan), initial=start, unit="row", disable=hidden) as bar:
        for requests, drafts in written:
            if settings.gates.duplicates:
                drafts = without_duplicates(requests, drafts, write_all, seen)
            part = plan[start : start + len(requests)]
            rows, tally = _labelled(examples, part, requests, drafts, label_rule)
            yield Chunk(start, start + len(part), rows, tally)
            start += len(part)
            bar.update(len(part))


def _requests(examples: Examples, plan: Plan, mixes: bool) -> list[TextRequest]:
    first = examples.fetch(plan.row.tolist())
    if not mixes:
        return [TextRequest(a, None, None, row.seed) for a, row in zip(first, plan, strict=True)]
    second = examples.fetch(plan.partner.tolist())
    return [TextRequest(a, b, row.alpha, row.seed) for a, b, row in zip(first, second, plan, strict=True)]


def _labelled(
    examples: Examples, plan: Plan, requests: list[TextRequest], drafts: list[Draft], label_rule: LabelRule
) -> tuple[list[NewRow], Tally]:
    made = [number for number, draft in enumerate(drafts) if draft.example is not None]
    texts = [draft.example for draft in drafts if draft.example is not None]
    labels = np.zeros((0, len(examples.labels.names)))
    if made:
        parents = [(requests[number].first, requests[number].second) for number in made]
        labels = label_rule(examples.labels, plan[made], parents, texts)
    rows = []
    for number, text, label, row in zip(made, texts, rounded(labels), plan[made], strict=True):
        is_mixed = requests[number].second is not None
        rows.append(NewRow(text, label, row.row, row.partner if is_mixed else None, requests[number].alpha, row.seed))
    rejected = [draft for draft in drafts if draft.stopped_by]
    tally = Tally(
        planned=len(drafts),
        made=len(made),
        stopped=Counter(draft.stopped_by[0] for draft in rejected),
        left_out=Counter(draft.stopped_by[0] for draft in rejected if draft.example is None),
        labels=Counter(labels.argmax(axis=1).tolist()),
    )
    return rows, tally


# --- summary --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunSummary:
    """Rows read, rows made, what each gate rejected, and the number of originals and new rows per label."""

    rows: int  # of the table
    skipped: int  # of them, without text
    counts: Mapping[LabelName, int]  # originals of each class
    tally: Tally
    seconds: float
    engine: str | None  # that ran the LINDA model, if there was one

    @classmethod
    def of(cls, examples: Examples, tally: Tally, seconds: float, engine: str | None) -> "RunSummary":
        return cls(len(examples.table), examples.skipped, examples.labels.counts(), tally, seconds, engine)

    def __str__(self) -> str:
        tally = self.tally
        by = f" (engine {self.engine})" if self.engine else ""
        lines = [f"{self.rows:,} rows in, {tally.made:,} made of {tally.planned:,} planned, {self.seconds:.0f} s{by}"]
        if self.skipped:
            lines.append(f"  {self.skipped:,} rows without text skipped")
        for gate in Gates.names():
            rejected, lost = tally.stopped[gate], tally.left_out[gate]
            lines.append(f"  {gate:<11}{rejected:>9,} rejected {rejected - lost:>9,} replaced {lost:>9,} left out")
        counts = list(self.counts.items())
        for number, (name, count) in enumerate(counts[:_LABELS_SHOWN]):
            lines.append(f"  label {name!s:<11}{count:>9,} originals {tally.labels[number]:>9,} new")
        if len(counts) > _LABELS_SHOWN:
            lines.append(f"  … {len(counts) - _LABELS_SHOWN} more labels")
        return "\n".join(lines)
