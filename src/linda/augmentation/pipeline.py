"""Rows → plan → texts → gates → labels → rows.

The steps are functions of rows and settings: `check_rows`, `planned_rows`, `augment_rows`. `Augmenter` runs them on
data in memory, `linda.file_runs.file_pipeline` on files.

A new row depends on its plan row, its parents and the new rows before it, but not on how the plan is cut into chunks
or on the number of processes.
"""

import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from linda.augmentation.gates import Seen
from linda.augmentation.label_rules import LabelRule
from linda.augmentation.settings import AugmentationSettings
from linda.augmentation.summary import RunSummary, Tally, plan_notes
from linda.augmentation.tables import NewRow, as_table, is_a, joined, joined_lists, known_classes, new_columns
from linda.augmentation.teacher import find_teacher
from linda.augmentation.texts import (
    Draft,
    TextRequest,
    WriteAll,
    Writer,
    without_duplicates,
    write_here,
    write_in_processes,
)
from linda.errors import LindaError, checked_kind
from linda.planning.balance import BalancedPlanner, to_make
from linda.planning.examples import (
    RECORD,
    WEIGHT,
    Examples,
    Table,
    read_examples,
    read_unlabelled,
    with_unlabelled,
)
from linda.planning.labels import LabelName, rounded
from linda.planning.plan import NoPartnerError, Plan, make_plan

# How often a balanced plan is extended to replace rows that were left out. Fewer are missing each time.
_ROUNDS = 10


def augment(data: Any, text: str = "text", label: str = "label", *, plan: Plan | None = None, **settings: Any) -> Any:
    """Add new rows to labelled data.

    Args:
        data: A pandas DataFrame, a `datasets.Dataset`, a `DatasetDict` (only its split "train" is augmented), or
            parallel lists as {"text": [...], "label": [...]}.
        text: Text column.
        label: Label column.
        plan: Which rows to mix, and at which ratio. By default it is drawn.
        **settings: Any other field of `AugmentationSettings`.

    Returns:
        The originals and the new rows, of the same type as the data; for parallel lists, a list of rows.

    Example:
        bigger = linda.augment(frame, text="text", label="label", per_row=2, seed=1)
    """
    return Augmenter(text=text, label=label, **settings).augment(data, plan)


class Augmenter:
    """Settings and the model that they name, for repeated use: the model is loaded once.

    Args:
        settings: The settings. By default those of `AugmentationSettings`.
        **changes: Settings by their names, instead of those.

    Attributes:
        settings: The `AugmentationSettings`.

    Example:
        augmenter = Augmenter(per_row=2, seed=7)
        bigger = augmenter.augment(frame)
        dataset.map(augmenter, batched=True, with_indices=True)
    """

    def __init__(self, settings: AugmentationSettings | None = None, **changes: Any) -> None:
        wanted = "an AugmentationSettings; give single settings by name, as per_row=2"
        checked_kind(settings, "settings", (AugmentationSettings, NoneType), wanted)
        self.settings = AugmentationSettings(**changes) if settings is None else replace(settings, **changes)

    def augment(self, data: Any, plan: Plan | None = None) -> Any:
        """The originals and the new rows. See `linda.augment`."""
        settings = self.settings
        if is_a(data, "datasets", "DatasetDict"):
            if "train" not in data:
                raise LindaError(f'the DatasetDict has no split "train", only {", ".join(data)}; give one Dataset')
            return type(data)({**data, "train": self.augment(data["train"], plan)})
        examples = check_rows(as_table(data), settings, known_classes(data, settings.label))
        counts = examples.labels.counts()
        sets = np.bincount(examples.labels.codes[examples.kept]).tolist()
        for note in [*examples.notes, *(plan_notes(counts, [sets], settings) if plan is None else ())]:
            warnings.warn(note, stacklevel=2)
        start = time.monotonic()
        rows, tally = self._new_rows(examples, *planned_rows(examples, settings, plan))
        wanted = None if settings.balance is None else to_make(counts, settings.balance)
        count = len(examples.table) - examples.unlabelled
        seconds = time.monotonic() - start
        summary = RunSummary(count, examples.skipped, counts, tally, seconds, settings, wanted)
        if settings.progress:
            print(summary, file=sys.stderr)
        for note in summary.notes():
            warnings.warn(note, stacklevel=2)
        return joined(data, examples, new_columns(examples, rows, settings), settings.only_new)

    def __call__(self, batch: dict[str, list[Any]], indices: list[int] | None = None) -> dict[str, list[Any]]:
        """Augment a batch of `datasets.map(batched=True)`. The partners of a row are the other rows of its batch.

        With `with_indices=True`, ratios differ between batches, and parents are row numbers of the whole data set.
        """
        settings = self.settings
        if settings.total is not None:
            raise LindaError("total is the number of new rows of a whole table; use per_row with datasets.map")
        if settings.balance is not None:
            raise LindaError("balance needs a whole table; give the data set to linda.augment instead of datasets.map")
        if settings.unlabelled is not None:
            raise LindaError("unlabelled texts are partners for a whole table; give the data set to linda.augment")
        batch = dict(batch)  # `datasets` passes a mapping that formats its columns on access
        examples = check_rows(as_table(batch), settings)
        first = indices[0] if indices else 0
        try:
            plan, _ = planned_rows(examples, settings, first=first * settings.per_row)
        except NoPartnerError:  # the last batch of a data set may be a single row
            plan = Plan.of([])
        new = new_columns(examples, self._new_rows(examples, plan)[0], settings)
        for parent in ("parent_a", "parent_b"):
            new[parent] = [None if row is None else row + first for row in new[parent]]
        return new if settings.only_new else joined_lists(batch, examples, new)

    def writing(self) -> AbstractContextManager[WriteAll]:
        """The writer of this augmenter, or worker processes with their own writers."""
        settings = self.settings
        if settings.workers == 1:
            return write_here(self._writer)
        if not isinstance(settings.method, str) or not isinstance(settings.model, str | Path | None):
            raise LindaError("with several workers, give the method and its model by name: each worker loads its own")
        return write_in_processes(partial(_load_writer, replace(settings, teacher=None)), settings.workers)

    @cached_property
    def _writer(self) -> Writer:
        return _load_writer(self.settings)

    def _new_rows(
        self, examples: Examples, plan: Plan, planner: BalancedPlanner | None = None
    ) -> tuple[list[NewRow], Tally]:
        if not len(plan):
            return [], Tally()
        with self.writing() as write_all:
            teacher = find_teacher(examples, self.settings)
            chunks = list(augment_rows(examples, plan, self.settings, write_all, teacher, planner=planner))
        return [row for chunk in chunks for row in chunk.rows], sum((chunk.tally for chunk in chunks), Tally())

    def __getstate__(self) -> dict[str, Any]:
        """The settings alone: `datasets.map` hashes and sends this state, and must not include a loaded model."""
        return {"settings": self.settings}


def _load_writer(settings: AugmentationSettings) -> Writer:
    return Writer(settings.load_method(), settings.gates, settings.retries, settings.protected)


def check_rows(
    table: Table,
    settings: AugmentationSettings,
    classes: Sequence[LabelName] | None = None,
    row_numbers: Sequence[int] | None = None,
) -> Examples:
    """The rows of a table, checked.

    Args:
        table: The rows.
        settings: Name the columns.
        classes: All classes that the type of the table declares. `settings.classes` override them.
        row_numbers: Numbers of the rows in messages. By default from 0.

    Returns:
        The examples.

    Example:
        check_rows(ListTable({"text": ["a cat", "a dog"], "label": [0, 1]}), AugmentationSettings())
    """
    examples = read_examples(
        table,
        settings.text,
        settings.label,
        settings.pair,
        skip_empty=settings.skip_empty,
        classes=classes if settings.classes is None else settings.classes,
        multi_label=settings.multi_label,
        reserved=[*RECORD] if settings.weight == 1 else [*RECORD, *WEIGHT],
        row_numbers=row_numbers,
    )
    if settings.unlabelled is None:
        return examples
    return with_unlabelled(examples, read_unlabelled(settings.unlabelled, settings.text, settings.label))


# --- plan -----------------------------------------------------------------------------------------------------


def planned_rows(
    examples: Examples,
    settings: AugmentationSettings,
    plan: Plan | None = None,
    *,
    first: int = 0,
    neighbours: np.ndarray | None = None,
    missing: np.ndarray | None = None,
) -> tuple[Plan, BalancedPlanner | None]:
    """The plan, given or drawn, and the planner that can extend it, if classes are balanced.

    Args:
        examples: The rows.
        settings: Which partners, how many and at which ratio.
        plan: The plan, if it is given.
        first: Offset in the random stream.
        neighbours: Result of `find_neighbours`, if it is known.
        missing: New rows of each class (C,), if classes are balanced. By default, those of the whole table.

    Returns:
        The plan, and the planner or None.

    Example:
        plan, planner = planned_rows(examples, AugmentationSettings(balance=True))
    """
    codes = examples.labels.codes
    if plan is not None:
        checked_kind(plan, "plan", Plan, "a linda.Plan, such as Plan.read(FILE)")
        check_no_balance(settings)
        plan.check_fits(codes, examples.unlabelled)
        return plan, None
    counts = examples.labels.counts()
    if settings.balance is not None and missing is None:
        missing = to_make(counts, settings.balance)
    if neighbours is None:
        neighbours = find_neighbours(examples, settings)
    if settings.balance is None:
        plan = make_plan(
            codes,
            per_row=settings.per_row,
            total=settings.total,
            **settings.drawing,
            first=first,
            neighbours=neighbours,
            unlabelled=examples.unlabelled,
        )
        return plan, None
    assert missing is not None
    planner = BalancedPlanner(codes, missing, **settings.drawing, neighbours=neighbours)
    planner.check_limits(counts)
    return planner.draw(), planner


def check_no_balance(settings: AugmentationSettings) -> None:
    """Raise a `LindaError` if a plan is given and classes are to be balanced."""
    if settings.balance is not None:
        raise LindaError("a plan already determines the new rows; leave out the plan or balance")


def find_neighbours(examples: Examples, settings: AugmentationSettings) -> np.ndarray | None:
    """The nearest rows of each row; None if the plan does not need them."""
    if settings.partners != "nearest" or not settings.mixes:
        return None
    from linda.planning.neighbours import nearest_rows

    return nearest_rows(examples, settings.encoder, progress=settings.progress)


# --- texts → gates → labels → rows ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Chunk:
    """The new rows of the plan rows from `start` to `stop`."""

    start: int
    stop: int
    rows: list[NewRow]
    tally: Tally


def augment_rows(
    examples: Examples,
    plan: Plan,
    settings: AugmentationSettings,
    write_all: WriteAll,
    teacher: Any = None,
    done: Iterable[Chunk] = (),
    planner: BalancedPlanner | None = None,
) -> Iterator[Chunk]:
    """Make the new rows of a plan, in order and in chunks of `settings.batch_size` plan rows.

    Args:
        examples: The rows that the plan refers to.
        plan: Which rows to mix, and at which ratio.
        settings: Gates, labels and batch size.
        write_all: From `write_here` or `write_in_processes`.
        teacher: Labels new texts if `settings.labels` is "predicted"; see `find_teacher`.
        done: The first chunks of the plan, from an interrupted run. They are not made again.
        planner: Extends the plan to replace rows that were left out, if classes are balanced.

    Returns:
        The remaining chunks: new rows with their counts.

    Example:
        with write_here(Writer(method, settings.gates, settings.retries)) as write_all:
            rows = [row for chunk in augment_rows(examples, plan, settings, write_all) for row in chunk.rows]
    """
    from tqdm import tqdm

    seen, start = Seen(example for _, example in examples.scan()), 0
    growing = _GrowingPlan(plan, planner, examples)
    for chunk in done:
        if start == len(growing.plan):
            growing.extend()
        start = chunk.stop
        growing.count(chunk.rows)
        for row in chunk.rows:
            seen.add(row.example)
    label_rule = LabelRule(settings.labels, settings.temperature, teacher)
    engine, hidden = (settings.engine_name, None) if settings.progress else (None, True)  # None: shown on a terminal
    with tqdm(desc=engine, total=len(growing.plan), initial=start, unit="row", disable=hidden) as bar:
        while start < len(growing.plan) or growing.extend():
            bar.total, plan = len(growing.plan), growing.plan
            steps = range(start, len(plan), settings.batch_size)
            parts = (plan[first : first + settings.batch_size] for first in steps)
            for requests, drafts in write_all(_requests(examples, part, settings.mixes) for part in parts):
                if settings.gates.duplicates:
                    drafts = without_duplicates(requests, drafts, write_all, seen)
                part = plan[start : start + len(requests)]
                rows, tally = _labelled(examples, part, requests, drafts, label_rule)
                growing.count(rows)
                yield Chunk(start, start + len(part), rows, tally)
                start += len(part)
                bar.update(len(part))


class _GrowingPlan:
    """A plan that is extended by its planner, if there is one, until every class has the rows that it needs."""

    def __init__(self, plan: Plan, planner: BalancedPlanner | None, examples: Examples) -> None:
        self.plan = plan
        self._planner = planner
        self._rounds = 0
        self._codes = examples.labels.codes
        self._made = np.zeros(len(examples.labels.names), dtype=np.int64)

    def count(self, rows: Iterable[NewRow]) -> None:
        for row in rows if self._planner is not None else ():
            self._made[self._codes[row.parent_a]] += 1

    def extend(self) -> bool:
        """Append rows for those that are missing. False if there are none, or if that was tried often enough."""
        if self._planner is None or self._rounds == _ROUNDS:
            return False
        self._rounds += 1
        before = len(self.plan)
        self.plan = self._planner.extended(self.plan, self._made)
        return len(self.plan) > before


def _requests(examples: Examples, plan: Plan, mixes: bool) -> list[TextRequest]:
    first = examples.fetch(plan.row.tolist())
    second = examples.fetch(plan.partner.tolist()) if mixes else [None] * len(plan)
    rows = zip(first, second, plan, strict=True)
    return [TextRequest(a, b, row.alpha if mixes else None, row.seed) for a, b, row in rows]


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
        labels=examples.labels.count_classes(labels),
    )
    return rows, tally
