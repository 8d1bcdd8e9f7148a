"""Who meets whom, at which ratio: the plan that generation follows.

    plan = make_plan(codes, ratio="beta:0.4", partners="different", seed=7)
    print(plan)
    plan.save("plan.csv"); Plan.read("plan.csv") == plan

A plan is a small table (row, partner, α, seed), 32 bytes per new row. It depends on the labels, the options
and the seed alone, and on the texts where partners are the nearest. Row i is made from the i-th block of a
counter-based random generator, so that it is the same however many rows follow it.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linda.errors import LindaError, checked_integer, checked_ratio, shortened
from linda.files.rowfile import read_rows
from linda.files.textio import atomic_writer, open_text

PARTNERS = ("any", "same", "different", "stratified", "nearest")

# Enough for a label, and short enough to read: α in the plan, in the output and in the label are one number.
_RATIO_DECIMALS = 4

MOST_ROWS = 10**8  # of a plan: 3.2 GB of it


class NoPartnerError(LindaError):
    """There are rows, but none that could be mixed as asked."""


class PlanRow(NamedTuple):
    """One new row to be made: `alpha` is the share of `row`, the rest is `partner`'s."""

    row: int
    partner: int
    alpha: float
    seed: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Four columns of equal length (N,): rows are counted from 0 as they stand in the data."""

    row: np.ndarray  # int64
    partner: np.ndarray  # int64
    alpha: np.ndarray  # float64
    seed: np.ndarray  # int64, below 2³²

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, part: slice) -> "Plan":
        return Plan(self.row[part], self.partner[part], self.alpha[part], self.seed[part])

    def __iter__(self) -> Iterator[PlanRow]:
        for values in zip(self.row, self.partner, self.alpha, self.seed, strict=True):
            row, partner, alpha, seed = (value.item() for value in values)
            yield PlanRow(row, partner, alpha, seed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]  # compared by value, and large

    def __str__(self) -> str:
        """The first rows as a table."""
        shown = 10
        lines = [f"{'row':>8} {'partner':>8} {'alpha':>7} {'seed':>11}"]
        lines += [f"{r.row:>8} {r.partner:>8} {r.alpha:>7.4f} {r.seed:>11}" for r in self[:shown]]
        if len(self) > shown:
            lines.append(f"… {len(self) - shown:,} more rows")
        return "\n".join(lines)

    def save(self, path: str | Path) -> None:
        """CSV, or JSON lines for a name in .jsonl; .gz and .xz are compressed."""
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
        """A plan that `save` wrote, or one made by hand in the same form."""
        with open_text(path) as lines:
            rows = read_rows(lines, "jsonl" if _is_json(path) else "csv", str(path), needed=PlanRow._fields)
            return cls.of([_checked_row(values, f"{path}, line {number}") for number, values in rows])

    @classmethod
    def of(cls, rows: list[PlanRow]) -> "Plan":
        row, partner, alpha, seed = zip(*rows, strict=True) if rows else ((), (), (), ())
        integers = (np.asarray(column, dtype=np.int64) for column in (row, partner, seed))
        row_column, partner_column, seed_column = integers
        return cls(row_column, partner_column, np.asarray(alpha, dtype=np.float64), seed_column)

    def check_fits(self, codes: np.ndarray) -> None:
        """Every row and partner must be a row of the data that was not left out."""
        if not len(self):
            raise LindaError("the plan has no rows: nothing would be made")
        for column in (self.row, self.partner):
            outside = (column < 0) | (column >= len(codes))
            if outside.any():
                place = int(outside.argmax())
                raise LindaError(
                    f"row {place} of the plan names row {column[place]}, but the data has rows 0 to "
                    f"{len(codes) - 1}; make the plan anew for this data"
                )
            left_out = codes[column] < 0
            if left_out.any():
                place = int(left_out.argmax())
                raise LindaError(f"row {place} of the plan names row {column[place]}, which is empty and was skipped")


@dataclass(frozen=True)
class Ratio:
    """How α is drawn: uniformly from `low` to `high`, or from Beta(`beta`, `beta`) stretched over them."""

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
                f"{text!r} is no ratio; give uniform, beta:0.4, a number between 0 and 1, or a range as 0.2-0.8"
            ) from None

    def draw(self, uniform: np.ndarray, seed: int, first: int) -> np.ndarray:
        """α for rows `first`, `first` + 1 …; `uniform` (N,) holds one number in [0, 1) for each."""
        share = uniform if self.beta is None else _beta_shares(self.beta, seed, first, len(uniform))
        return np.round(self.low + (self.high - self.low) * share, _RATIO_DECIMALS)


def _beta_shares(beta: float, seed: int, first: int, count: int) -> np.ndarray:
    # numpy draws Beta by rejection, with an unknown number of random words: every row has its own stream.
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
) -> Plan:
    """One new row for each row of the data, or `per_row`, or `total` in all.

    codes: (n,) the class of each row, −1 for rows that are left out of everything.
    partners: `any` other row; one of the `same` label; one of a `different` label; `stratified`: first a class,
        each as likely as any other, then one of its rows; `nearest`: one of its `neighbours`.
        None: nothing is mixed and no partner read; they are drawn as `any`, and a single row is its own.
    first: where in the random stream the plan begins; a plan of many parts gives each its own.
    neighbours: (n, k) the rows that each may meet, of `linda.augmentation.neighbours.nearest_rows`.

    New rows go round the data: one for every row, then the next for every row. What is left of `total` falls on
    rows drawn at random. A row without a partner of the kind asked for (the only one of its class) has none.
    """
    if partners is not None and partners not in PARTNERS:
        raise LindaError(f"partners are {', '.join(PARTNERS)}; got {partners!r}")
    for name, value in (("per_row", per_row), ("total", total)):
        if value is not None and value < 1:
            raise LindaError(f"{name} is {shortened(value)}; it must be at least 1")
        if value is not None:
            checked_integer(value, name, 1, MOST_ROWS)
    if partners == "nearest" and neighbours is None:
        raise LindaError("partners 'nearest' need the neighbours of each row; linda.augmentation.neighbours finds them")
    if not 0 <= seed < 2**64:
        raise LindaError(f"the seed is {seed}; it must lie between 0 and 2⁶⁴ − 1")
    law = Ratio.parse(ratio)
    classes = _Classes.of(codes)
    rows = classes.rows_with_partner(partners)
    count = total if total is not None else per_row * len(rows)
    if count > MOST_ROWS:
        raise LindaError(
            f"per_row is {per_row}, which makes {count:,} rows; give less, for at most {MOST_ROWS:,} in all"
        )
    words = _random_words(seed, first, count)  # (N, 4)
    row = _rounds(rows, count, seed)
    u, v = _uniform(words[:, 0]), _uniform(words[:, 1])
    if partners == "nearest":
        assert neighbours is not None
        partner = neighbours[row, (u * neighbours.shape[1]).astype(np.int64)].astype(np.int64)
    else:
        partner = classes.partners(row, partners, u, v)
    return Plan(
        row=row,
        partner=partner,
        alpha=law.draw(_uniform(words[:, 2]), seed, first),
        seed=(words[:, 3] >> np.uint64(32)).astype(np.int64),
    )


@dataclass(frozen=True)
class _Classes:
    """The rows sorted by class: each class is a range of `order`, so any kind of partner is a range with a gap."""

    order: np.ndarray  # (m,) row numbers, by class and then by number
    place: np.ndarray  # (n,) where each row stands in `order`
    code: np.ndarray  # (n,)
    start: np.ndarray  # (C,) where each class begins in `order`
    size: np.ndarray  # (C,) how many rows it has; classes without rows have 0

    @classmethod
    def of(cls, codes: np.ndarray) -> "_Classes":
        order = np.argsort(codes, kind="stable")[(codes < 0).sum() :]
        place = np.full(len(codes), -1)
        place[order] = np.arange(len(order))
        size = np.bincount(codes[codes >= 0])
        return cls(order, place, codes, np.cumsum(size) - size, size)

    def rows_with_partner(self, partners: str | None) -> np.ndarray:
        rows = np.sort(self.order)
        if not len(rows):
            raise NoPartnerError("there are no rows to make others from; give at least two")
        if len(rows) == 1 and partners is not None:
            raise NoPartnerError("there is one row to mix; a new text lies between two rows, give at least two")
        if partners == "same":
            rows = rows[self.size[self.code[rows]] > 1]
            if not len(rows):
                raise NoPartnerError(
                    "no two rows have the same label; mix across labels (partners 'any', --partners any)"
                )
        if partners == "different" and (self.size > 0).sum() < 2:
            raise NoPartnerError("all rows have one label; choose other partners than 'different'")
        return rows

    def partners(self, row: np.ndarray, kind: str | None, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """A partner (N,) for each row (N,): u and v in [0, 1) choose it, never the row itself.

        All kinds draw from a range of `order` less a gap: everything or one class, without the row or its class.
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
        gap_size = np.minimum(gap_size, high - low - 1)  # a single row, where nothing is mixed
        drawn = low + (u * (high - low - gap_size)).astype(np.int64)
        # A gap before the range (another class was drawn) has size 0 and moves nothing.
        return self.order[np.where(drawn >= gap, drawn + gap_size, drawn)]

    def _any_class(self, own: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Each class as likely as any other; a row alone in its class cannot draw that class."""
        known = np.flatnonzero(self.size)
        alone = self.size[own] == 1
        drawn = (v * (len(known) - alone)).astype(np.int64)
        return known[np.where(alone & (drawn >= np.searchsorted(known, own)), drawn + 1, drawn)]


def _rounds(rows: np.ndarray, count: int, seed: int) -> np.ndarray:
    whole, rest = divmod(count, len(rows))
    chosen = np.random.default_rng([seed, count]).choice(len(rows), size=rest, replace=False)
    return np.concatenate([np.tile(rows, whole), rows[np.sort(chosen)]])


def _random_words(seed: int, first: int, count: int) -> np.ndarray:
    """Four random words (N, 4) for each row: block number i of the generator belongs to row i."""
    generator = np.random.Philox(key=seed, counter=[first, 0, 0, 0])
    return generator.random_raw(4 * count).reshape(count, 4)


def _uniform(words: np.ndarray) -> np.ndarray:
    """Random words as numbers in [0, 1): their upper 53 bits."""
    return (words >> np.uint64(11)) * 2.0**-53


def _is_json(path: str | Path) -> bool:
    return ".jsonl" in Path(path).suffixes


def _checked_row(values: dict[str, Any], place: str) -> PlanRow:
    row, partner, seed = (_checked_index(values[name], f"{place}: {name}") for name in ("row", "partner", "seed"))
    return PlanRow(row, partner, checked_ratio(values["alpha"], f"{place}: alpha"), seed)


def _checked_index(value: Any, name: str) -> int:
    """A whole number from 0, of 63 bits; in CSV it is a text."""
    is_text = isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal() and len(value) < 20
    return checked_integer(int(value) if is_text else value, name, 0, 2**63 - 1)
