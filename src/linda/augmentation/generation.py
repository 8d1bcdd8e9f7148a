"""Plan rows become new rows: texts, then gates, then labels.

A new row depends on its plan row, its parents and the rows made before it, never on how the plan is cut into chunks
or on how many processes write.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from linda.augmentation import labels as label_rules
from linda.augmentation.examples import Examples
from linda.augmentation.gates import Example, Seen
from linda.augmentation.plan import Plan
from linda.augmentation.writing import Draft, Task, WriteAll
from linda.errors import LindaError
from linda.measures import share_of_first


class NewRow(NamedTuple):
    """One row made: its texts, its label and where it comes from."""

    example: Example
    label_probs: list[float]
    parent_a: int
    parent_b: int | None  # None and no alpha: the method changes one text, it mixes none
    alpha: float | None
    plan_seed: int


@dataclass
class Tally:
    """What became of plan rows. The gate that counts is the one that stopped the row's first text."""

    planned: int = 0
    made: int = 0
    stopped: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)  # stopped, and no later text passed either
    labels: Counter[int] = field(default_factory=Counter)  # the likeliest label of the rows made, by its number

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.planned + other.planned,
            self.made + other.made,
            self.stopped + other.stopped,
            self.left_out + other.left_out,
            self.labels + other.labels,
        )


@dataclass(frozen=True)
class Chunk:
    """The new rows of a stretch of the plan, from `start` up to `stop`."""

    start: int
    stop: int
    rows: list[NewRow]
    tally: Tally


@dataclass(frozen=True)
class LabelRule:
    """How a new row gets its label: one of `linda.augmentation.labels.MODES`."""

    mode: str = "interpolated"
    temperature: float = 0.5
    teacher: Any = None

    def __post_init__(self) -> None:
        if self.mode not in label_rules.MODES:
            raise LindaError(f"labels are {', '.join(label_rules.MODES)}; got {self.mode!r}")
        label_rules.check_temperature(self.temperature)

    def __call__(self, examples: Examples, plan: Plan, tasks: Sequence[Task], made: Sequence[Example]) -> np.ndarray:
        """Labels (B, C) of the rows `made` for these plan rows."""
        if self.mode == "predicted":
            texts, *pairs = (list(column) for column in zip(*made, strict=True))
            return label_rules.predicted(self.teacher, examples.labels.names, texts, *pairs)
        label = examples.labels.distributions(plan.row)
        if tasks[0].second is not None:
            share = plan.alpha
            if self.mode == "measured":
                share = np.array([_measured_share(*row) for row in zip(tasks, made, strict=True)])
            label = label_rules.interpolated(label, examples.labels.distributions(plan.partner), share)
        if self.mode == "sharpened":
            return label_rules.sharpened(label, self.temperature)
        return label_rules.hard(label) if self.mode == "hard" else label


def _measured_share(task: Task, made: Example) -> float:
    """The share of the first parent that the text itself shows; over the two texts of a pair, the mean."""
    assert task.second is not None
    shares = [share_of_first(*texts) for texts in zip(made, task.first, task.second, strict=True)]
    return sum(shares) / len(shares)


@dataclass(frozen=True)
class Generator:
    """Makes the new rows of a plan, chunk by chunk."""

    examples: Examples
    plan: Plan
    mixes: bool  # whether the method reads partner and ratio
    label_rule: LabelRule
    drop_duplicates: bool
    chunk_size: int

    def chunks(self, write_all: WriteAll, seen: Seen, start: int = 0) -> Iterator[Chunk]:
        """From plan row `start` on; `seen` must hold the originals and the rows made before it."""
        starts = range(start, len(self.plan), self.chunk_size)
        written = write_all(self._tasks(self._part(first)) for first in starts)
        for first, (tasks, drafts) in zip(starts, written, strict=True):
            if self.drop_duplicates:
                drafts = _without_duplicates(tasks, drafts, write_all, seen)
            yield self._chunk(first, tasks, drafts)

    def _part(self, start: int) -> Plan:
        return self.plan[start : start + self.chunk_size]

    def _tasks(self, part: Plan) -> list[Task]:
        first = self.examples.fetch(part.row.tolist())
        if not self.mixes:
            return [Task(a, None, None, row.seed) for a, row in zip(first, part, strict=True)]
        second = self.examples.fetch(part.partner.tolist())
        return [Task(a, b, row.alpha, row.seed) for a, b, row in zip(first, second, part, strict=True)]

    def _chunk(self, start: int, tasks: list[Task], drafts: list[Draft]) -> Chunk:
        part = self._part(start)
        made = [number for number, draft in enumerate(drafts) if draft.example is not None]
        texts = [draft.example for draft in drafts if draft.example is not None]
        kept = Plan(part.row[made], part.partner[made], part.alpha[made], part.seed[made])
        labels = np.zeros((0, len(self.examples.labels.names)))
        if made:
            labels = self.label_rule(self.examples, kept, [tasks[number] for number in made], texts)
        rows = [
            NewRow(
                example=text,
                label_probs=label,
                parent_a=row.row,
                parent_b=row.partner if self.mixes else None,
                alpha=row.alpha if self.mixes else None,
                plan_seed=row.seed,
            )
            for text, label, row in zip(texts, label_rules.rounded(labels), kept, strict=True)
        ]
        return Chunk(start, start + len(part), rows, _tally(drafts, labels))


def _tally(drafts: Sequence[Draft], labels: np.ndarray) -> Tally:
    stopped = [draft for draft in drafts if draft.stopped_by]
    return Tally(
        planned=len(drafts),
        made=len(labels),
        stopped=Counter(draft.stopped_by[0] for draft in stopped),
        left_out=Counter(draft.stopped_by[0] for draft in stopped if draft.example is None),
        labels=Counter(labels.argmax(axis=1).tolist()),
    )


def _without_duplicates(tasks: list[Task], drafts: list[Draft], write_all: WriteAll, seen: Seen) -> list[Draft]:
    """As if the rows were written one by one, each after those before it; `seen` grows by what is kept.

    A row whose draft is there already takes its next attempt that is not. Which attempts are needed is found by trial:
    all rows are gone through in order with the attempts known so far, then the missing ones are written together,
    until none is missing.
    """
    known = [[draft] for draft in drafts]
    while True:
        settled: list[Draft] = []
        missing: list[int] = []
        fresh = Seen()
        for number, attempts in enumerate(known):
            draft = _first_fresh(attempts, seen, fresh)
            if draft.example is not None:
                fresh.add(draft.example)
            elif attempts[-1].example is not None:
                missing.append(number)
            settled.append(draft)
        if not missing:
            seen.update(fresh)
            return settled
        again = [replace(tasks[number], attempt=known[number][-1].attempt + 1) for number in missing]
        _, more = next(write_all([again]))
        for number, draft in zip(missing, more, strict=True):
            known[number].append(draft)


def _first_fresh(attempts: Sequence[Draft], seen: Seen, fresh: Seen) -> Draft:
    stopped_by: tuple[str, ...] = ()
    for draft in attempts:
        stopped_by += draft.stopped_by
        if draft.example is not None:
            if draft.example not in seen and draft.example not in fresh:
                return Draft(draft.example, draft.attempt, stopped_by)
            stopped_by += ("duplicates",)
    return Draft(None, attempts[-1].attempt, stopped_by)
