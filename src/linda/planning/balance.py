"""Balanced classes: how many rows each class needs, and which rows are mixed for them.

    rows_to_make({"rare": 10, "common": 100}, "largest")  # {"rare": 90, "common": 0}

The plan of a class is a sequence that depends only on its rows, the options and the seed. It uses every row and every
pair of rows once before it uses a pair again, at another ratio. If texts are rejected, the sequence is continued.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from linda.errors import LindaError, shortened
from linda.planning.labels import LabelName, shown
from linda.planning.plan import MOST_ROWS, RATIO_DECIMALS, Classes, Plan, Ratio, random_words, uniform_numbers

Balance = bool | int | float | str | Mapping[LabelName, int]

LARGEST = "largest"

_PER_CLASS = re.compile(r"(.+?)=(\d{1,18})(?:,|$)")

# Multiples of it, modulo 1, are evenly spread: a pair is reused at ratios far from its earlier ones.
_GOLDEN = (math.sqrt(5) - 1) / 2

# How often a plan is extended to replace rows that were left out. Fewer are missing each time.
_ROUNDS = 10

# Random streams of this module; the second half of a Philox counter.
_PLACES, _SEEDS = 2, 3


# --- how many rows --------------------------------------------------------------------------------------------


def parse_balance(balance: Balance) -> int | float | Mapping[LabelName, int]:
    """Rows per class, a share of the largest class (1.0 for `largest` and True), or rows of some classes."""
    value: Any = _parsed_text(balance) if isinstance(balance, str) else balance
    if value is True:
        return 1.0
    if isinstance(value, Mapping) and value and all(_is_count(rows) for rows in value.values()):
        return {name: int(rows) for name, rows in value.items()}
    if _is_count(value):
        return int(value)
    if isinstance(value, float) and 0 < value <= 1:
        return value
    raise LindaError(
        f"balance is {shortened(balance)}; give {LARGEST!r}, a number of rows (200, at most {MOST_ROWS:,}), a share of "
        "the largest class (0.5), or rows per class (rare=300,other=100)"
    )


def _parsed_text(text: str) -> object:
    if text == LARGEST:
        return True
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    matches = list(_PER_CLASS.finditer(text))
    is_whole = "".join(match.group() for match in matches) == text and not text.endswith(",")
    return {match[1]: int(match[2]) for match in matches} if is_whole else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(1 <= value <= MOST_ROWS)


def rows_to_make(counts: Mapping[LabelName, int], balance: Balance) -> dict[LabelName, int]:
    """The number of new rows of each class. Rows are never dropped.

    Args:
        counts: Rows of each class. Classes without rows get none.
        balance: `largest` or True: as many rows as the largest class; 200: at least 200 rows in each class; 0.5: at
            least half as many as the largest class; `rare=300,other=100` or a mapping: this many rows of these classes.

    Returns:
        New rows of each class, in the order of `counts`.

    Raises:
        LindaError: For a class that does not exist, or a target below the current number of rows.

    Example:
        rows_to_make({"rare": 10, "common": 100}, {"rare": 50})  # {"rare": 40, "common": 0}
    """
    wanted = parse_balance(balance)
    if isinstance(wanted, Mapping):
        return dict.fromkeys(counts, 0) | dict(_missing(counts, wanted))
    present = [count for count in counts.values() if count]
    target = wanted if isinstance(wanted, int) else round(wanted * max(present, default=0))
    if target < min(present, default=0):
        raise LindaError(
            f"balance {balance} requests {target:,} rows per class, but every class has at least {min(present):,}; "
            "rows are never dropped, so request more"
        )
    return {name: max(0, target - count) if count else 0 for name, count in counts.items()}


def _missing(counts: Mapping[LabelName, int], targets: Mapping[LabelName, int]) -> Iterator[tuple[LabelName, int]]:
    by_text = {str(name): name for name in counts}  # a command line gives numbers as text
    for given, target in targets.items():
        name = given if given in counts else by_text.get(str(given))
        if name is None or not counts[name]:
            present = [name for name, count in counts.items() if count]
            raise LindaError(f"balance: there are no rows of the class {given!r}; the data has {shown(present)}")
        if target < counts[name]:
            raise LindaError(
                f"balance requests {target:,} rows of the class {name!r}, which has {counts[name]:,}; "
                "rows are never dropped, so request more"
            )
        yield name, target - counts[name]


# --- which rows -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BalancedPlanner:
    """Plans for a number of new rows of each class.

    Args:
        codes: Class of each row (n,); −1 for skipped rows.
        to_make: New rows of each class (C,).
        partners: As in `make_plan`; None if nothing is mixed.
        ratio: Distribution of α, as in `make_plan`. If the partner has another label, α is at least one half, because
            the new row must count for the class of its row.
        seed: Seed of all draws.
        neighbours: As in `make_plan`.

    Example:
        planner = BalancedPlanner(labels.codes, np.array([90, 0]), partners="same", ratio="0.2-0.8")
        plan = planner.draw()
        plan = planner.extended(plan, made=np.array([85, 0]))
    """

    codes: np.ndarray
    to_make: np.ndarray
    partners: str | None = "same"
    ratio: str = "uniform"
    seed: int = 0
    neighbours: np.ndarray | None = None

    @cached_property
    def _classes(self) -> Classes:
        return Classes.of(self.codes)

    def limits(self) -> np.ndarray:
        """The number of distinct pairs and ratios of each class (C,); infinite if nothing is mixed."""
        ratio = Ratio.parse(self.ratio)
        size = np.zeros(len(self.to_make))
        size[: len(self._classes.size)] = self._classes.size
        if self.partners is None:
            return np.where(size > 0, np.inf, 0)
        # A pair can be used as (a, b) and as (b, a). With a range of ratios, that gives no more texts.
        ratios = ratio.values if ratio.values > 1 or ratio.low == 0.5 else 2
        if self.partners == "same":
            return size * (size - 1) / 2 * ratios
        return size * self._partner_count(size) * ratio.values

    def check_limits(self, counts: Mapping[LabelName, int]) -> None:
        """Raise a `LindaError` if a class needs more rows than its pairs and ratios allow. `counts`: rows per class.

        A class whose only row has no partner is no error: it stays as it is.
        """
        for (name, rows), needed, limit in zip(counts.items(), self.to_make, self.limits(), strict=True):
            if 0 < limit < needed:
                raise LindaError(
                    f"{needed:,} new rows of the class {name!r} are needed, but its {rows:,} rows allow only "
                    f"{int(limit):,} different pairs and ratios; give a range of ratios (0.2-0.8) or a smaller balance"
                )

    def draw(self) -> Plan:
        """A plan with all rows to make. A class whose only row has no partner gets none."""
        if self.to_make.any() and not self._allowed(self.to_make, np.zeros_like(self.to_make)).any():
            self._classes.rows_with_partner(self.partners)  # raises an error that says why
        return self.extended(Plan.of([]), np.zeros_like(self.to_make))

    def extended(self, plan: Plan, made: np.ndarray) -> Plan:
        """The plan, and further rows for those that are still missing.

        Args:
            plan: The plan so far.
            made: New rows of each class (C,) that were made from it.

        Returns:
            The longer plan; an equal one if nothing is missing, or if all pairs and ratios were used.
        """
        planned = np.bincount(self.codes[plan.row], minlength=len(self.to_make))
        more = self._allowed(self.to_make - made, planned)
        parts = [self._part(code, planned[code], more[code]) for code in np.flatnonzero(more).tolist()]
        return Plan.joined([plan, *parts])

    def _allowed(self, missing: np.ndarray, planned: np.ndarray) -> np.ndarray:
        return np.clip(missing, 0, np.maximum(self.limits() - planned, 0)).astype(np.int64)

    def _part(self, code: int, first: int, count: int) -> Plan:
        """Rows `first`, `first` + 1, … of the sequence of a class."""
        start, size = self._classes.start[code], self._classes.size[code]
        members = np.random.default_rng([self.seed, code]).permutation(self._classes.order[start : start + size])
        position = np.arange(first, first + count)
        pairs_up = self.partners == "same"
        cycle, place = np.divmod(position, size * (size - 1) // 2 if pairs_up else size)
        words = self._words_of_places(code, place)
        if pairs_up:
            one, other = _round_robin(size, place)
            is_swapped = (cycle + place) % 2 == 1  # so that every row is the first of a pair as often as the second
            row = members[np.where(is_swapped, other, one)]
            partner = members[np.where(is_swapped, one, other)]
        else:
            row = members[place]
            partner = self._partners(row, cycle, words)
        share = (uniform_numbers(words[:, 2]) + cycle * _GOLDEN) % 1
        alpha = Ratio.parse(self.ratio).draw(share, self.seed, first + ((code + 1) << 40))
        belongs_to_partner = (self.codes[partner] != code) & (alpha < 0.5)
        seeds = random_words(self.seed, first, count, (code, _SEEDS))[:, 0]
        return Plan(
            row=row,
            partner=partner,
            alpha=np.where(belongs_to_partner, np.round(1 - alpha, RATIO_DECIMALS), alpha),
            seed=(seeds >> np.uint64(32)).astype(np.int64),
        )

    def _words_of_places(self, code: int, place: np.ndarray) -> np.ndarray:
        """Random words (N, 4) that are the same whenever a place comes again."""
        if place[-1] - place[0] == len(place) - 1:  # a part of one cycle
            return random_words(self.seed, int(place[0]), len(place), (code, _PLACES))
        return random_words(self.seed, 0, int(place.max()) + 1, (code, _PLACES))[place]

    def _partners(self, row: np.ndarray, cycle: np.ndarray, words: np.ndarray) -> np.ndarray:
        """The partners of a row in turn, beginning with a random one."""
        u, v = uniform_numbers(words[:, 0]), uniform_numbers(words[:, 1])
        if self.partners == "stratified":  # classes are drawn, so their rows have no common order
            return self._classes.partners(row, self.partners, (u + cycle * _GOLDEN) % 1, (v + cycle * _GOLDEN**2) % 1)
        count = self._partner_count(self._classes.size[self.codes[row]])
        turn = ((u * count).astype(np.int64) + cycle) % count
        if self.partners == "nearest":
            assert self.neighbours is not None
            return self.neighbours[row, turn].astype(np.int64)
        return self._classes.partners(row, self.partners, (turn + 0.5) / count, v)

    def _partner_count(self, size: np.ndarray) -> np.ndarray:
        """Possible partners of a row in classes of these sizes, for all kinds except same."""
        rows = len(self._classes.order)
        if self.partners == "nearest":
            assert self.neighbours is not None
            return np.full_like(size, self.neighbours.shape[1])
        if self.partners == "different":
            return rows - size
        return np.full_like(size, max(1, rows - 1) if self.partners is None else rows - 1)


class GrowingPlan:
    """A plan that is extended by its planner, if there is one, until every class has the rows that it needs."""

    def __init__(self, plan: Plan, planner: BalancedPlanner | None) -> None:
        self.plan = plan
        self._planner = planner
        self._made = np.zeros(0 if planner is None else len(planner.to_make), dtype=np.int64)  # rows of each class
        self._rounds = 0

    def count(self, parents: list[int]) -> None:
        """Count new rows by the classes of their first parents, which they were planned for."""
        if self._planner is not None:
            codes = self._planner.codes[np.array(parents, dtype=np.int64)]
            self._made += np.bincount(codes, minlength=len(self._made))

    def extend(self) -> bool:
        """Append rows for those that are missing. False if there are none, or if that was tried often enough."""
        if self._planner is None or self._rounds == _ROUNDS:
            return False
        self._rounds += 1
        before = len(self.plan)
        self.plan = self._planner.extended(self.plan, self._made)
        return len(self.plan) > before


def _round_robin(size: int, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of places as in a tournament: in each round, every place occurs once (or sits out, if `size` is odd).

    `index` is from 0 to size·(size−1)/2 − 1; each pair of places has one index.
    """
    rounds = size - 1 + size % 2
    number, match = np.divmod(index, size // 2)
    match = match + size % 2  # match 0 of an even number of places is that of the last place
    one, other = (number + match) % rounds, (number - match) % rounds
    return np.where(match == 0, size - 1, one), other
