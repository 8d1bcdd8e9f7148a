"""Which rows train and which are tested.

A seed draws training rows; everything that is not drawn is the same for all seeds and all methods, so that
differences between methods are paired. The rows of a smaller draw are among those of a larger one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from linda.benchmark.tasks import Rows, Task
from linda.errors import LindaError

# What is fixed for all seeds is drawn with this one.
_FIXED = 20_010

_VALIDATION_SHARE = 0.2

ON = ("test", "validation")

FULL = "full"  # the name of a protocol with every row


@dataclass(frozen=True)
class Protocol:
    """shots: that many rows of each class; train_size: that many in all; neither: every row."""

    shots: int | None = None
    train_size: int | None = None

    @property
    def name(self) -> str:
        if self.shots is not None:
            return f"{self.shots}-shot"
        return FULL if self.train_size is None else f"{self.train_size} rows"

    def for_pools(self, sizes: Sequence[int]) -> Protocol:
        """The same for a task with so many training rows (of each domain): a size that none reaches is full."""
        is_full = self.train_size is not None and all(size < self.train_size for size in sizes)
        return Protocol() if is_full else self

    @property
    def is_low_resource(self) -> bool:
        return self.shots is not None


@dataclass(frozen=True)
class Split:
    """The rows that training draws from, and the sets that are predicted."""

    pool: Rows
    tests: dict[str, Rows]


def split(task: Task, domain: str | None, on: str, test_size: int | None) -> Split:
    """The rows of one training domain (None: all), and what is tested: every domain that there is.

    on: `test`, or `validation`: a fifth of the training rows, the same for every seed, which are then not trained
        on. Settings are chosen on the second and reported on the first.
    test_size: at most that many rows of each test set, the same for every seed.
    """
    pool, tests = task.train, task.tests
    if on == "validation":
        held_out = _validation_rows(pool)
        tests = {"test": pool.take(sorted(held_out))}
        pool = pool.take([row for row in range(len(pool)) if row not in held_out])
    if domain is not None:
        tests = {name: _of_domain(rows, name) for rows in tests.values() for name in sorted(set(rows.domains or ()))}
        if domain not in tests:
            raise LindaError(f"{task.name}: the domain {domain!r} is in the training rows, but not in those to test")
        pool = _of_domain(pool, domain)
    return Split(pool, {name: _at_most(rows, test_size) for name, rows in tests.items()})


def _validation_rows(pool: Rows) -> set[int]:
    """A fifth of the rows; of those of each domain, where there are several."""
    order = np.random.default_rng(_FIXED).permutation(len(pool)).tolist()
    domains = pool.domains or [""] * len(pool)
    held_out: set[int] = set()
    for domain in sorted(set(domains)):
        rows = [row for row in order if domains[row] == domain]
        held_out.update(rows[: max(1, round(_VALIDATION_SHARE * len(rows)))])
    return held_out


def draw(task: Task, pool: Rows, protocol: Protocol, seed: int) -> Rows:
    """The training rows of one seed, in the order of the data."""
    if protocol.shots is not None:
        return pool.take(sorted(_shots(task, pool, protocol.shots, seed)))
    if protocol.train_size is None:
        return pool
    order = np.random.default_rng([seed, _FIXED]).permutation(len(pool))
    return pool.take(np.sort(order[: protocol.train_size]).tolist())


def _shots(task: Task, pool: Rows, shots: int, seed: int) -> list[int]:
    chosen: list[int] = []
    for code, name in enumerate(task.classes):
        members = np.array([row for row, label in enumerate(pool.labels) if label == name], dtype=np.int64)
        if len(members) < shots and not task.small_classes:
            domain = f", domain {pool.domains[0]!r}" if pool.domains else ""
            raise LindaError(
                f"{task.name}{domain}: the class {name!r} has {len(members)} rows to draw {shots} from; "
                "ask for fewer shots, or take what there is (--small-classes)"
            )
        chosen += np.random.default_rng([seed, code]).permutation(members)[:shots].tolist()
    return chosen


def _of_domain(rows: Rows, domain: str) -> Rows:
    assert rows.domains is not None
    return rows.take([row for row, name in enumerate(rows.domains) if name == domain])


def _at_most(rows: Rows, size: int | None) -> Rows:
    if size is None or len(rows) <= size:
        return rows
    return rows.take(np.sort(np.random.default_rng(_FIXED).permutation(len(rows))[:size]).tolist())
