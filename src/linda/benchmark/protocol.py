"""Which rows are trained on and which are tested.

A seed draws training rows; everything else is the same for all seeds and all methods, so that differences between
methods are paired. A smaller draw is a subset of a larger one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from linda.benchmark.tasks import BenchmarkTask, LabelledRows
from linda.errors import LindaError
from linda.planning.labels import LabelName, shown

# Random streams: _FIXED alone seeds what is the same for all seeds.
_FIXED = 20_010
_NOISE = 20_011

_VALIDATION_SHARE = 0.2

# A class is rare in the original data if it has less than this share of the rows of an average class.
_RARE_SHARE = 0.5

ON = ("test", "validation")

FULL = "full"  # the name of a protocol with every row
NATURAL = "natural"


@dataclass(frozen=True)
class Protocol:
    """How training rows are drawn. By default, all rows.

    Attributes:
        shots: Rows of each class.
        train_size: Total number of rows.
        imbalance: Rows of the rare class, and rows of every other class.
        rare: The rare class of `imbalance`; None: each class in turn.
        is_natural: Keep the class shares of the data, with at least one row of each class.
        label_noise: Share of the drawn rows whose label is replaced by another class.
    """

    shots: int | None = None
    train_size: int | None = None
    imbalance: tuple[int, int] | None = None
    rare: LabelName | None = None
    is_natural: bool = False
    label_noise: float = 0.0

    @property
    def name(self) -> str:
        parts = [NATURAL] if self.is_natural else []
        if self.shots is not None:
            parts = [f"{self.shots}-shot"]
        elif self.imbalance is not None:
            parts = [f"{self.imbalance[0]}:{self.imbalance[1]} {self.rare}"]
        elif self.train_size is not None:
            parts.append(f"{self.train_size} rows")
        noise = [f"noise {self.label_noise:g}"] if self.label_noise else []
        return " ".join([*(parts or [FULL]), *noise])

    def for_task(self, task: BenchmarkTask, pool_sizes: Sequence[int]) -> list[Protocol]:
        """Expand the protocol for a task: each class rare in turn; a size that exceeds every pool is full."""
        if self.imbalance is not None:
            return [replace(self, rare=name) for name in self._rare_classes(task)]
        is_full = self.train_size is not None and all(size < self.train_size for size in pool_sizes)
        return [replace(self, train_size=None) if is_full else self]

    def _rare_classes(self, task: BenchmarkTask) -> list[LabelName]:
        if self.rare is None:
            return task.classes
        found = [name for name in task.classes if str(name) == str(self.rare)]
        if not found:
            raise LindaError(f"{task.name} has no class {str(self.rare)!r} (--rare); it has {shown(task.classes)}")
        return found

    @property
    def is_low_resource(self) -> bool:
        return self.shots is not None or self.imbalance is not None

    def rare_classes(self, task: BenchmarkTask) -> list[LabelName]:
        """Return the classes whose precision and recall are reported: the rare one, or those rare in the data."""
        if self.imbalance is not None:
            return [] if self.rare is None else [self.rare]
        if self.shots is not None or task.is_multi_label:
            return []
        counts = Counter(task.train.labels)
        least = _RARE_SHARE * len(task.train) / len(counts)
        return [name for name in task.classes if counts[name] < least]


@dataclass(frozen=True)
class Split:
    """The rows that training rows are drawn from, and the test sets."""

    pool: LabelledRows
    tests: dict[str, LabelledRows]


def split(task: BenchmarkTask, domain: str | None, on: str, test_size: int | None) -> Split:
    """Return the rows of one training domain (None: all), and the test rows of every domain.

    Args:
        task: The data.
        domain: The domain to train on.
        on: `test`, or `validation`: a fifth of the training rows, the same for every seed, held out from training.
            Choose settings on `validation` and report results on `test`.
        test_size: Maximum number of rows of each test set, the same for every seed.
    """
    pool, tests = task.train, task.tests
    if on == "validation":
        held_out = _validation_rows(pool)
        tests = {"test": pool.take(sorted(held_out))}
        pool = pool.take([row for row in range(len(pool)) if row not in held_out])
    if domain is not None:
        tests = {name: _of_domain(rows, name) for rows in tests.values() for name in sorted(set(rows.domains or ()))}
        if domain not in tests:
            raise LindaError(f"{task.name}: the domain {domain!r} is in the training rows, but not in the test rows")
        pool = _of_domain(pool, domain)
    return Split(pool, {name: _at_most(rows, test_size) for name, rows in tests.items()})


def _validation_rows(pool: LabelledRows) -> set[int]:
    """Draw a fifth of the rows; of each domain, if there are several."""
    order = np.random.default_rng(_FIXED).permutation(len(pool)).tolist()
    domains = pool.domains or [""] * len(pool)
    held_out: set[int] = set()
    for domain in sorted(set(domains)):
        rows = [row for row in order if domains[row] == domain]
        held_out.update(rows[: max(1, round(_VALIDATION_SHARE * len(rows)))])
    return held_out


def draw(task: BenchmarkTask, pool: LabelledRows, protocol: Protocol, seed: int) -> LabelledRows:
    """Draw the training rows of one seed, in the order of the data."""
    return _with_noise(pool.take(_drawn_rows(task, pool, protocol, seed)), task.classes, protocol.label_noise, seed)


def texts_not_drawn(task: BenchmarkTask, pool: LabelledRows, protocol: Protocol, seed: int) -> list[str]:
    """Return the texts of the pool that a seed does not train on, to be used without their labels."""
    drawn = set(_drawn_rows(task, pool, protocol, seed))
    return [text for row, text in enumerate(pool.texts) if row not in drawn]


def _drawn_rows(task: BenchmarkTask, pool: LabelledRows, protocol: Protocol, seed: int) -> list[int]:
    counts = _class_counts(task, pool, protocol)
    if counts is not None:
        return sorted(_stratified(task, pool, counts, seed))
    if protocol.train_size is None:
        return list(range(len(pool)))
    order = np.random.default_rng([seed, _FIXED]).permutation(len(pool))
    return np.sort(order[: protocol.train_size]).tolist()


def _class_counts(task: BenchmarkTask, pool: LabelledRows, protocol: Protocol) -> list[int] | None:
    """Return how many rows to draw of each class; None if the protocol does not specify it."""
    if protocol.shots is not None:
        return [protocol.shots] * len(task.classes)
    if protocol.imbalance is not None:
        few, many = protocol.imbalance
        return [few if name == protocol.rare else many for name in task.classes]
    if protocol.is_natural and protocol.train_size is not None:
        there = Counter(pool.labels)
        share = min(1.0, protocol.train_size / len(pool))
        return [min(there[name], max(1, round(share * there[name]))) for name in task.classes]
    return None


def _stratified(task: BenchmarkTask, pool: LabelledRows, counts: Sequence[int], seed: int) -> list[int]:
    chosen: list[int] = []
    for code, (name, count) in enumerate(zip(task.classes, counts, strict=True)):
        members = np.array([row for row, label in enumerate(pool.labels) if label == name], dtype=np.int64)
        if len(members) < count and not task.small_classes:
            domain = f", domain {pool.domains[0]!r}" if pool.domains else ""
            raise LindaError(
                f"{task.name}{domain}: the class {name!r} has {len(members)} rows to draw {count} from; "
                "draw fewer rows, or use all rows of small classes (--small-classes)"
            )
        chosen += np.random.default_rng([seed, code]).permutation(members)[:count].tolist()
    return chosen


def _with_noise(rows: LabelledRows, classes: Sequence[LabelName], share: float, seed: int) -> LabelledRows:
    """Replace the labels of a `share` of the rows; each wrong class is equally likely."""
    if not share:
        return rows
    random = np.random.default_rng([seed, _NOISE])
    labels = list(rows.labels)
    for row in random.permutation(len(rows))[: round(share * len(rows))]:
        others = [name for name in classes if name != labels[row]]
        labels[row] = others[random.integers(len(others))]
    return replace(rows, labels=labels)


def _of_domain(rows: LabelledRows, domain: str) -> LabelledRows:
    assert rows.domains is not None
    return rows.take([row for row, name in enumerate(rows.domains) if name == domain])


def _at_most(rows: LabelledRows, size: int | None) -> LabelledRows:
    if size is None or len(rows) <= size:
        return rows
    return rows.take(np.sort(np.random.default_rng(_FIXED).permutation(len(rows))[:size]).tolist())
