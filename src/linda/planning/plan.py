"""Which rows are mixed, and at which ratio.

    plan = make_plan(codes, ratio="beta:0.4", partners="different", seed=7)
    print(plan)
    plan.save("plan.csv"); Plan.read("plan.csv") == plan

A plan is a small table (row, partner, α, seed), 32 bytes per new row. It depends only on the labels, the options and
the seed; with nearest partners, also on the texts. Row i uses block i of a counter-based random generator, so it does
not depend on the number of rows after it.
"""

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linda.errors import MAX_SEED, LindaError, checked_integer, checked_ratio, reason, shortened
from linda.files.rowfile import read_rows
from linda.files.textio import atomic_writer, open_text

PARTNERS = ("any", "same", "different", "stratified", "nearest")

# Precise enough for a label. The plan, the output and the label use the same rounded α.
RATIO_DECIMALS = 4

MOST_ROWS = 10**8  # 3.2 GB


class NoPartnerError(LindaError):
    """No row has a partner of the requested kind."""


class PlanRow(NamedTuple):
    """A new row to be written: `alpha` is the share of `row`, 1 − `alpha` the share of `partner`."""

    row: int
    partner: int
    alpha: float
    seed: int


@dataclass(frozen=True, eq=False)
class Plan:
    """A table of the new rows to write: four columns of equal length (N,).

    Attributes:
        row: First parent of each new row, int64; rows are numbered from 0, in the order of the data.
        partner: Second parent, int64.
        alpha: Share of the first parent, float64.
        seed: Seed of the text, int64, below 2³².

    Example:
        >>> plan = Plan.read("plan.csv")
        >>> linda.augment(frame, plan=plan)
    """

    row: np.ndarray
    partner: np.ndarray
    alpha: np.ndarray
    seed: np.ndarray

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """Row, partner, alpha and seed."""
        return self.row, self.partner, self.alpha, self.seed

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, part: "slice | list[int]") -> "Plan":
        return Plan(*(column[part] for column in self.columns))

    def __iter__(self) -> Iterator[PlanRow]:
        for values in zip(*self.columns, strict=True):
            yield PlanRow(*(value.item() for value in values))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return all(map(np.array_equal, self.columns, other.columns))

    __hash__ = None  # type: ignore[assignment]  # mutable arrays, compared by value

    def __str__(self) -> str:
        """The first rows as a table."""
        shown = 10
        lines = [f"{'row':>8} {'partner':>8} {'alpha':>7} {'seed':>11}"]
        lines += [f"{r.row:>8} {r.partner:>8} {r.alpha:>7.4f} {r.seed:>11}" for r in self[:shown]]
        if len(self) > shown:
            lines.append(f"… {len(self) - shown:,} more rows")
        return "\n".join(lines)

    def save(self, path: str | Path) -> None:
        """Write CSV, or JSON lines if the name has .jsonl; names in .gz and .xz are compressed."""
        with atomic_writer(path) as file:
            if _is_json(path):
                for row in self:
                    file.write(json.dumps(row._asdict()) + "\n")
            else:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(PlanRow._fields)
                writer.writerows(self)

    @classmethod
    def read(cls, path: str | Path) -> "Plan":
        """Read a plan that `save` wrote, or one of the same form."""
        with open_text(path) as lines:
            rows = read_rows(lines, "jsonl" if _is_json(path) else "csv", str(path), needed=PlanRow._fields)
            return cls.of([_checked_row(values, f"{path}, line {number}") for number, values in rows])

    @classmethod
    def of(cls, rows: list[PlanRow]) -> "Plan":
        """Create a plan from rows."""
        try:
            row, partner, alpha, seed = zip(*rows, strict=True) if rows else ((), (), (), ())
            integers = (np.asarray(column, dtype=np.int64) for column in (row, partner, seed))
            row_column, partner_column, seed_column = integers
            return cls(row_column, partner_column, np.asarray(alpha, dtype=np.float64), seed_column)
        except (TypeError, ValueError, OverflowError) as error:
            raise LindaError(
                f"the plan {shortened(rows)} is not a list of (row, partner, alpha, seed) ({reason(error)})"
            ) from error

    @classmethod
    def joined(cls, plans: "Iterable[Plan]") -> "Plan":
        """Several plans, one after the other."""
        return cls(*(np.concatenate(columns) for columns in zip(*(plan.columns for plan in plans), strict=True)))

    def shifted(self, rows: int) -> "Plan":
        """The plan with this number added to the numbers of all rows."""
        return Plan(self.row + rows, self.partner + rows, self.alpha, self.seed)

    def check_fits(self, codes: np.ndarray, unlabelled: int = 0) -> None:
        """Raise a `LindaError` unless every row and partner is a row of the data that is not skipped.

        The last `unlabelled` rows, which have the code −1, can be partners.
        """
        if not len(self):
            raise LindaError("the plan has no rows; give a plan with at least one")
        for column in (self.row, self.partner):
            outside = (column < 0) | (column >= len(codes))
            if outside.any():
                place = int(outside.argmax())
                raise LindaError(
                    f"row {place} of the plan refers to row {column[place]}, but the data has rows 0 to "
                    f"{len(codes) - 1}; make a new plan for this data"
                )
            left_out = codes[column] < 0
            if column is self.partner:
                left_out &= column < len(codes) - unlabelled
            if left_out.any():
                place = int(left_out.argmax())
                raise LindaError(f"row {place} of the plan refers to row {column[place]}, which is empty and skipped")


@dataclass(frozen=True)
class Ratio:
    """Distribution of α: uniform from `low` to `high`, or Beta(`beta`, `beta`) scaled to that range."""

    low: float = 0.0
    high: float = 1.0
    beta: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Ratio":
        """`uniform`, `beta:0.4`, a constant (`0.5`) or a range (`0.2-0.8`)."""
        try:
            if text == "uniform":
                return cls()
            if text.startswith("beta:"):
                beta = float(text.removeprefix("beta:"))
                if not 0 < beta < float("inf"):
                    raise ValueError
                return cls(beta=beta)
            low, _, high = text.partition("-")
            ratio = cls(float(low), float(high or low))
            if not 0 <= ratio.low <= ratio.high <= 1:
                raise ValueError
            return ratio
        except ValueError:
            raise LindaError(
                f"{text!r} is not a ratio; give uniform, beta:0.4, a number between 0 and 1, or a range such as 0.2-0.8"
            ) from None

    @property
    def values(self) -> int:
        """The number of different α."""
        return round((self.high - self.low) * 10**RATIO_DECIMALS) + 1

    def draw(self, uniform: np.ndarray, seed: int, first: int) -> np.ndarray:
        """α for rows `first`, `first` + 1, …; `uniform` (N,) has one number in [0, 1) for each."""
        share = uniform if self.beta is None else _beta_shares(self.beta, seed, first, len(uniform))
        return np.round(self.low + (self.high - self.low) * share, RATIO_DECIMALS)


def _beta_shares(beta: float, seed: int, first: int, count: int) -> np.ndarray:
    # numpy samples Beta by rejection, with an unknown number of random words, so each row has its own stream.
    streams = (np.random.Philox(key=seed, counter=[0, row, 0, 1]) for row in range(first, first + count))
    return np.array([np.random.Generator(stream).beta(beta, beta) for stream in streams])


def make_plan(
    codes: np.ndarray,
    *,
    per_row: int = 1,
    total: int | None = None,
    partners: str | None = "any",
    ratio: str = "uniform",
    seed: int = 0,
    first: int = 0,
    neighbours: np.ndarray | None = None,
    unlabelled: int = 0,
) -> Plan:
    """Draw a plan.

    New rows cycle through the data: one for each row, then the next for each row. The remainder of `total` goes to
    random rows. A row without a partner of the requested kind (the only row of its class) gets no new row.

    Args:
        codes: Class of each row (n,); −1 for skipped rows.
        per_row: New rows per row.
        total: New rows in total, instead of `per_row`.
        partners: `any` other row; a row with the `same` or a `different` label; `stratified`: a uniformly drawn class,
            then one of its rows; `nearest`: one of `neighbours`. None if nothing is mixed: partners are then drawn as
            `any` but not used, and a single row is enough.
        ratio: Distribution of α, see `Ratio.parse`.
        seed: Seed of all draws.
        first: Offset in the random stream. If a plan is made in parts, each part needs its own range.
        neighbours: Possible partners of each row (n, k), from `linda.planning.neighbours.nearest_rows`.
        unlabelled: Number of unlabelled rows at the end (code −1). If there are any, they are the partners.

    Returns:
        The plan.

    Example:
        make_plan(examples.labels.codes, per_row=2, partners="same", ratio="0.2-0.8", seed=7)
    """
    if partners is not None and partners not in PARTNERS:
        raise LindaError(f"unknown partners {partners!r}; choose from {', '.join(PARTNERS)}")
    for name, value in (("per_row", per_row), ("total", total)):
        if value is not None:
            checked_integer(value, name, 1, MOST_ROWS)
    checked_integer(seed, "seed", 0, MAX_SEED)
    distribution = Ratio.parse(ratio)
    classes = Classes.of(codes)
    rows = classes.rows_with_partner(None if unlabelled else partners)
    count = total if total is not None else per_row * len(rows)
    if count > MOST_ROWS:
        raise LindaError(f"per_row is {per_row}, which makes {count:,} new rows; the maximum is {MOST_ROWS:,}")
    words = random_words(seed, first, count)  # (N, 4)
    row = _rounds(rows, count, seed)
    u, v = uniform_numbers(words[:, 0]), uniform_numbers(words[:, 1])
    if unlabelled:
        partner = len(codes) - unlabelled + (u * unlabelled).astype(np.int64)
    elif partners == "nearest":
        if neighbours is None:
            raise LindaError(
                "partners 'nearest' need `neighbours`; compute them with `linda.planning.neighbours.nearest_rows`"
            )
        partner = neighbours[row, (u * neighbours.shape[1]).astype(np.int64)].astype(np.int64)
    else:
        partner = classes.partners(row, partners, u, v)
    return Plan(
        row=row,
        partner=partner,
        alpha=distribution.draw(uniform_numbers(words[:, 2]), seed, first),
        seed=(words[:, 3] >> np.uint64(32)).astype(np.int64),
    )


@dataclass(frozen=True)
class Classes:
    """The rows sorted by class. A class is a range of `order`, so the partners of a row are a range with a gap."""

    order: np.ndarray  # (m,) row numbers, by class and then by number
    place: np.ndarray  # (n,) position of each row in `order`
    code: np.ndarray  # (n,)
    start: np.ndarray  # (C,) start of each class in `order`
    size: np.ndarray  # (C,) number of rows of each class, possibly 0

    @classmethod
    def of(cls, codes: np.ndarray) -> "Classes":
        """Sort the rows by class; codes (n,) has −1 for skipped rows."""
        order = np.argsort(codes, kind="stable")[(codes < 0).sum() :]
        place = np.full(len(codes), -1)
        place[order] = np.arange(len(order))
        size = np.bincount(codes[codes >= 0])
        return cls(order, place, codes, np.cumsum(size) - size, size)

    def rows_with_partner(self, partners: str | None) -> np.ndarray:
        """Return the rows that have a partner of this kind; raise a `NoPartnerError` if there are none."""
        rows = np.sort(self.order)
        if not len(rows):
            raise NoPartnerError("there are no rows; give at least two")
        if len(rows) == 1 and partners is not None:
            raise NoPartnerError("there is only one row; mixing needs at least two")
        if partners == "same":
            rows = rows[self.size[self.code[rows]] > 1]
            if not len(rows):
                raise NoPartnerError(
                    "no two rows have the same label; mix rows of different labels (partners='any', --partners any)"
                )
        if partners == "different" and (self.size > 0).sum() < 2:
            raise NoPartnerError("all rows have the same label; choose partners other than 'different'")
        return rows

    def partners(self, row: np.ndarray, kind: str | None, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Draw a partner for each row, never the row itself: from all rows or one class, without the row or its class.

        Args:
            row: Rows (N,).
            kind: One of `PARTNERS` except nearest; None if nothing is mixed.
            u: Numbers (N,) in [0, 1) that choose the partner.
            v: Numbers (N,) in [0, 1) that choose its class, if stratified.

        Returns:
            Partners (N,).
        """
        place, own = self.place[row], self.code[row]
        if kind == "stratified":
            own = self._any_class(own, v)
        if kind in ("any", "different", None):
            low, high = np.zeros_like(place), np.full_like(place, len(self.order))
        else:
            low, high = self.start[own], self.start[own] + self.size[own]
        if kind == "different":
            gap, gap_size = self.start[own], self.size[own]
        else:
            gap, gap_size = place, ((low <= place) & (place < high)).astype(np.int64)
        gap_size = np.minimum(gap_size, high - low - 1)  # a single row is its own partner if nothing is mixed
        drawn = low + (u * (high - low - gap_size)).astype(np.int64)
        # A gap outside the range (another class was drawn) has size 0 and no effect.
        return self.order[np.where(drawn >= gap, drawn + gap_size, drawn)]

    def _any_class(self, own: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Draw a class uniformly. A row that is the only one of its class cannot draw that class."""
        known = np.flatnonzero(self.size)
        alone = self.size[own] == 1
        drawn = (v * (len(known) - alone)).astype(np.int64)
        return known[np.where(alone & (drawn >= np.searchsorted(known, own)), drawn + 1, drawn)]


def _rounds(rows: np.ndarray, count: int, seed: int) -> np.ndarray:
    whole, rest = divmod(count, len(rows))
    chosen = np.random.default_rng([seed, count]).choice(len(rows), size=rest, replace=False)
    return np.concatenate([np.tile(rows, whole), rows[np.sort(chosen)]])


def random_words(seed: int, first: int, count: int, stream: tuple[int, int] = (0, 0)) -> np.ndarray:
    """Four random words per row (N, 4): row i uses block i of a stream of the generator."""
    generator = np.random.Philox(key=seed, counter=[first, 0, *stream])
    return generator.random_raw(4 * count).reshape(count, 4)


def uniform_numbers(words: np.ndarray) -> np.ndarray:
    """Random words as numbers in [0, 1), from their upper 53 bits."""
    return (words >> np.uint64(11)) * 2.0**-53


def _is_json(path: str | Path) -> bool:
    return ".jsonl" in Path(path).suffixes


def _checked_row(values: dict[str, Any], place: str) -> PlanRow:
    row, partner, seed = (_integer(values[name], place) for name in ("row", "partner", "seed"))
    for name, number in (("row", row), ("partner", partner), ("seed", seed)):
        if not 0 <= number < 2**63:
            raise LindaError(f"{place}: the {name} is {shortened(number)}; it must be between 0 and 2^63 - 1")
    return PlanRow(row, partner, checked_ratio(values["alpha"], f"{place}: alpha"), seed)


def _integer(value: Any, place: str) -> int:
    """An integer; in CSV it is a string."""
    try:
        if isinstance(value, str):
            return int(value)
        return checked_integer(value, "number", -(10**30), 10**30)
    except ValueError:
        raise LindaError(f"{place}: row, partner and seed must be integers, not {shortened(value)}") from None
