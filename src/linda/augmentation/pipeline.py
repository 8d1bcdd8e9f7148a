"""Rows → plan → texts → gates → labels → rows.

The steps are functions of rows and settings: `checked_examples`, `planned_rows`, `augment_rows`. An `Augmenter` runs
them on data in memory, `linda.file_runs` on files.

A new row depends on its plan row, its parents and the new rows before it, but not on how the plan is cut into chunks
or on the number of processes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linda.augmentation.gates import Seen
from linda.augmentation.label_rules import LabelRule
from linda.augmentation.settings import AugmentationSettings
from linda.augmentation.summary import Tally
from linda.augmentation.tables import NewRow
from linda.augmentation.texts import Draft, TextRequest, WriteAll, without_duplicates
from linda.errors import LindaError, checked_kind
from linda.planning.balance import BalancedPlanner, GrowingPlan, rows_to_make
from linda.planning.examples import Examples, Table, read_examples, read_unlabelled, with_unlabelled
from linda.planning.labels import LabelName, rounded
from linda.planning.plan import Plan, make_plan

# --- rows -----------------------------------------------------------------------------------------------------


def checked_examples(
    table: Table,
    settings: AugmentationSettings,
    classes: Sequence[LabelName] | None = None,
    row_numbers: Sequence[int] | None = None,
) -> Examples:
    """The rows of a table, checked, and the unlabelled texts after them.

    Args:
        table: The rows.
        settings: Name the columns.
        classes: All classes that the type of the table declares. `settings.classes` override them.
        row_numbers: Numbers of the rows in messages. By default from 0.

    Returns:
        The examples.

    Example:
        checked_examples(ListTable({"text": ["a cat", "a dog"], "label": [0, 1]}), AugmentationSettings())
    """
    examples = read_examples(
        table,
        settings.text,
        settings.label,
        settings.pair,
        skip_empty=settings.skip_empty,
        classes=classes if settings.classes is None else settings.classes,
        multi_label=settings.multi_label,
        reserved=[*settings.added_columns],
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
        missing = np.array([*rows_to_make(counts, settings.balance).values()], dtype=np.int64)
    if neighbours is None:
        neighbours = find_neighbours(examples, settings)
    if missing is not None:
        planner = BalancedPlanner(codes, missing, **settings.drawing, neighbours=neighbours)
        planner.check_limits(counts)
        return planner.draw(), planner
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
    growing = GrowingPlan(plan, planner)
    for chunk in done:
        if start == len(growing.plan):
            growing.extend()
        start = chunk.stop
        growing.count([row.parent_a for row in chunk.rows])
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
                growing.count([row.parent_a for row in rows])
                yield Chunk(start, start + len(part), rows, tally)
                start += len(part)
                bar.update(len(part))


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
    kept = [requests[number] for number in made]
    labels = np.zeros((0, len(examples.labels.names)))
    if made:
        parents = [(request.first, request.second) for request in kept]
        labels = label_rule(examples.labels, plan[made], parents, texts)
    rows = [
        NewRow(text, label, row.row, None if request.second is None else row.partner, request.alpha, row.seed)
        for text, label, row, request in zip(texts, rounded(labels), plan[made], kept, strict=True)
    ]
    rejected = [draft for draft in drafts if draft.stopped_by]
    tally = Tally(
        planned=len(drafts),
        made=len(made),
        stopped=Counter(draft.stopped_by[0] for draft in rejected),
        left_out=Counter(draft.stopped_by[0] for draft in rejected if draft.example is None),
        labels=examples.labels.count_classes(labels),
    )
    return rows, tally
