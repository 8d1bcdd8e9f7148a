"""A table as a sequence of blocks: a fixed number of consecutive rows each.

Partners, plan, gates and the search for duplicates are limited to the block, so its new rows depend only on its rows,
the settings and (seed, number of the block), and memory is that of one block. A table that fits in one block has the
same plan as the same rows in memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from linda.augmentation.pipeline import planned_rows
from linda.augmentation.settings import AugmentationSettings
from linda.augmentation.summary import plan_notes
from linda.errors import LindaError
from linda.planning.balance import BalancedPlanner, rows_to_make
from linda.planning.examples import Examples
from linda.planning.labels import LabelName
from linda.planning.plan import NoPartnerError, Plan, make_plan

# Rows of a block. A smaller table is one block.
BLOCK_ROWS = 100_000


@dataclass(frozen=True)
class Block:
    """What is known about a block without reading its rows."""

    number: int
    first_row: int  # in the table
    rows: int
    skipped: int  # of them, without text
    counts: dict[LabelName, int]  # rows of each class, of those that are not skipped
    counts_before: dict[LabelName, int]  # in all earlier blocks
    sets: tuple[int, int] | None = None  # if rows have several classes: sets of classes with one row, and with more

    @property
    def kept(self) -> int:
        return self.rows - self.skipped

    @property
    def label_rows(self) -> list[int]:
        """Rows of each label, at most two. If rows have several classes, a label is a set of classes."""
        if self.sets is None:
            return [min(count, 2) for count in self.counts.values()]
        single, shared = self.sets
        return [1] * single + [2] * shared


@dataclass(frozen=True)
class BlockedTable:
    """Result of one pass over a table: its classes, and the rows of each class in every block."""

    classes: tuple[LabelName, ...]
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, classes: Iterable[LabelName], sizes: Iterable[Sequence[Any]]) -> "BlockedTable":
        """Number the blocks. sizes: rows, skipped rows and rows of each class of every block; also `Block.sets`."""
        names = tuple(classes)
        blocks: list[Block] = []
        first, before = 0, dict.fromkeys(names, 0)
        for number, (rows, skipped, counts, *sets) in enumerate(sizes):
            own = dict(zip(names, counts, strict=True))
            blocks.append(Block(number, first, rows, skipped, own, before, tuple(sets[0]) if sets else None))
            first, before = first + rows, {name: before[name] + own[name] for name in names}
        return cls(names, tuple(blocks))

    @cached_property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    @cached_property
    def skipped(self) -> int:
        return sum(block.skipped for block in self.blocks)

    @cached_property
    def counts(self) -> dict[LabelName, int]:
        """Rows of each class."""
        last = self.blocks[-1]
        return {name: last.counts_before[name] + last.counts[name] for name in self.classes}

    def to_json(self) -> dict[str, Any]:
        sizes = [
            [block.rows, block.skipped, list(block.counts.values()), *([] if block.sets is None else [block.sets])]
            for block in self.blocks
        ]
        return {"classes": list(self.classes), "blocks": sizes}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "BlockedTable":
        return cls.of(values["classes"], values["blocks"])


# --- the plan of a block --------------------------------------------------------------------------------------


def block_settings(settings: AugmentationSettings, block: Block, table: BlockedTable) -> AugmentationSettings | None:
    """Return the settings for the plan of a block: its seed, and its share of the total. None if that share is 0.

    They depend only on the settings, the number of the block, and the numbers of rows of the blocks.
    """
    seed = settings.seed
    if block.number:
        digest = blake2b(f"{settings.seed} {block.number}".encode(), digest_size=8).digest()
        seed = int.from_bytes(digest, "little")
    if settings.total is None:
        return replace(settings, seed=seed)
    before = sum(earlier.kept for earlier in table.blocks[: block.number])
    total = share(settings.total, before, block.kept, table.rows - table.skipped)
    return replace(settings, seed=seed, total=total) if total else None


def rows_for_block(settings: AugmentationSettings, block: Block, table: BlockedTable) -> np.ndarray:
    """Return how many new rows of each class (C,) a block makes to balance the classes of the table.

    The new rows of a class are divided among the blocks in proportion to their rows of this class.
    """
    assert settings.balance is not None
    needed = rows_to_make(table.counts, settings.balance)
    shares = [share(rows, block.counts_before[c], block.counts[c], table.counts[c]) for c, rows in needed.items()]
    return np.array(shares, dtype=np.int64)


def share(total: int, before: int, own: int, whole: int) -> int:
    """Return the share in `total` of `own` rows, which follow `before` of the `whole`. All shares add up to it."""
    return total * (before + own) // whole - total * before // whole if whole else 0


def plan_block(
    examples: Examples,
    settings: AugmentationSettings,
    block: Block,
    table: BlockedTable,
    given: Plan | None = None,
    neighbours: np.ndarray | None = None,
) -> tuple[Plan, BalancedPlanner | None]:
    """Draw the plan of a block. If classes are balanced, return also the planner, which can extend it.

    Args:
        examples: The rows of the block.
        settings: Which partners, how many and at which ratio.
        block: The block.
        table: The table that it belongs to.
        given: A plan of the whole table, to use instead of drawing one.
        neighbours: Result of `find_neighbours`, if it is known.

    Returns:
        The plan, with rows numbered from 0 in the block, and the planner or None. The plan is empty if there are
        several blocks and no row of this one has a partner.

    Example:
        plan, planner = plan_block(examples, settings, table.blocks[0], table)
    """
    own = block_settings(settings, block, table)
    part = None if given is None else given_block_plan(given, block, table)
    if own is None or (part is not None and not len(part) and len(table.blocks) > 1):
        return Plan.of([]), None
    missing = None if settings.balance is None else rows_for_block(settings, block, table)
    try:
        return planned_rows(examples, own, part, neighbours=neighbours, missing=missing)
    except NoPartnerError:
        if len(table.blocks) == 1:
            raise
        return Plan.of([]), None


def given_block_plan(plan: Plan, block: Block, table: BlockedTable) -> Plan:
    """Return the rows of a given plan that belong to a block, with rows numbered from 0 in the block."""
    if len(table.blocks) == 1:
        return plan
    stop = block.first_row + block.rows
    part = plan[np.flatnonzero((plan.row >= block.first_row) & (plan.row < stop)).tolist()]
    return part.shifted(-block.first_row)


def check_given_plan(plan: Plan, table: BlockedTable) -> None:
    """Raise a `LindaError` unless every plan row mixes two rows of one block."""
    if len(table.blocks) == 1:
        return  # `Plan.check_fits` is enough
    plan.check_fits(np.zeros(table.rows, dtype=np.int8))
    block_rows = table.blocks[0].rows
    apart = plan.row // block_rows != plan.partner // block_rows
    if apart.any():
        place = int(apart.argmax())
        raise LindaError(
            f"row {place} of the plan mixes rows {plan.row[place]} and {plan.partner[place]}, which are in different "
            f"blocks; set --block-rows to at least {table.rows}"
        )


def check_settings(table: BlockedTable, settings: AugmentationSettings) -> None:
    """Raise a `LindaError` if these settings need the whole table in one block, or more rows than a block can make."""
    if len(table.blocks) == 1:
        return
    if settings.unlabelled is not None:
        raise LindaError(
            f"unlabelled texts need the table in one block, and it has {len(table.blocks):,}; "
            f"set --block-rows to at least {table.rows}"
        )
    if settings.balance is None or settings.partners == "nearest" or not settings.mixes:
        return
    for block in table.blocks:
        needed = rows_for_block(settings, block, table)
        codes = np.repeat(np.arange(len(needed)), [*block.counts.values()])
        try:
            BalancedPlanner(codes, needed, **settings.drawing).check_limits(block.counts)
        except LindaError as error:
            raise LindaError(f"block {block.number}: {error}, or use larger blocks (--block-rows)") from error


def notes(table: BlockedTable, settings: AugmentationSettings) -> Iterator[str]:
    """Yield notes for the user about the partners in this table; raise a `LindaError` if no block has any."""
    yield from plan_notes(table.counts, [block.label_rows for block in table.blocks], settings)
    if len(table.blocks) == 1 or not settings.mixes:
        return
    errors = [error for block in table.blocks if (error := _partner_error(block, settings)) is not None]
    if len(errors) == len(table.blocks):
        raise LindaError(f"in every block, {errors[0]}, or shuffle the table (--shuffle)") from errors[0]
    if errors:
        yield (
            f"{len(errors):,} of {len(table.blocks):,} blocks have no rows that can be mixed and get no new rows; "
            "shuffle the table (--shuffle), or use larger blocks (--block-rows)"
        )


def _partner_error(block: Block, settings: AugmentationSettings) -> NoPartnerError | None:
    """Return the error of drawing a plan for this block, if any. Two rows of a label represent all of them."""
    few = block.label_rows
    try:
        make_plan(
            np.repeat(np.arange(len(few)), few), partners="any" if settings.partners == "nearest" else settings.partners
        )
    except NoPartnerError as error:
        return error
    return None
