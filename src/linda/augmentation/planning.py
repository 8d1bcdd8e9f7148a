"""The plan of a run: given, drawn, or drawn so that classes are balanced."""

from collections.abc import Iterator

import numpy as np

from linda.augmentation.balance import BalancedPlanner, rows_to_make
from linda.augmentation.examples import Examples
from linda.augmentation.labels import shown
from linda.augmentation.plan import Plan, make_plan
from linda.augmentation.settings import AugmentationSettings
from linda.errors import LindaError


def notes(examples: Examples, settings: AugmentationSettings, *, plan_is_given: bool) -> Iterator[str]:
    """What the user should know about these rows."""
    yield from examples.notes
    if settings.unlabelled is not None:
        return
    codes = examples.labels.codes
    sizes = np.bincount(codes[codes >= 0])
    single = int((sizes == 1).sum())
    # If no class has two rows, drawing the plan raises an error.
    can_draw = not plan_is_given and (sizes > 1).any()
    needs_pairs = settings.mixes and settings.partners == "same"
    if settings.balance is not None:
        yield from _balance_notes(examples, settings, needs_pairs)
    elif single and can_draw and needs_pairs:
        yield f"{single:,} rows are the only ones with their label and get no new row; --partners any includes them"


def _balance_notes(examples: Examples, settings: AugmentationSettings, needs_pairs: bool) -> Iterator[str]:
    missing, counts = to_make(examples, settings), examples.labels.counts()
    if not missing.any():
        yield "every class has as many rows as balance asks for; there is nothing to add"
    single = [name for (name, count), rows in zip(counts.items(), missing, strict=True) if count == 1 and rows]
    if single and needs_pairs:
        yield (
            f"classes with a single row, which has no partner, stay as they are: {shown(single)}; "
            "fill them with --partners any, or with a method that needs no partner (--method eda)"
        )


def planned_rows(
    examples: Examples, settings: AugmentationSettings, plan: Plan | None = None, neighbours: np.ndarray | None = None
) -> tuple[Plan, BalancedPlanner | None]:
    """The plan, given or drawn, and the planner that can extend it, if classes are balanced.

    Args:
        examples: The rows.
        settings: Which partners, how many and at which ratio.
        plan: The plan, if it is given.
        neighbours: Result of `find_neighbours`, if it is known.

    Returns:
        The plan, and the planner or None.

    Example:
        plan, planner = planned_rows(examples, AugmentationSettings(balance=True))
    """
    if plan is not None:
        if settings.balance is not None:
            raise LindaError("a plan already determines the new rows; leave out the plan or balance")
        plan.check_fits(examples.labels.codes, examples.unlabelled)
        return plan, None
    if settings.balance is None:
        return draw_plan(examples, settings, neighbours=neighbours), None
    planner = find_planner(examples, settings, neighbours)
    return planner.draw(), planner


def find_planner(
    examples: Examples, settings: AugmentationSettings, neighbours: np.ndarray | None = None
) -> BalancedPlanner:
    """The planner that fills up classes. `neighbours`: result of `find_neighbours`, if it is known."""
    planner = BalancedPlanner(
        examples.labels.codes,
        to_make(examples, settings),
        partners=settings.partners if settings.mixes else None,
        ratio=settings.ratio,
        seed=settings.seed,
        neighbours=find_neighbours(examples, settings) if neighbours is None else neighbours,
    )
    planner.check_limits(examples.labels)
    return planner


def to_make(examples: Examples, settings: AugmentationSettings) -> np.ndarray:
    """New rows of each class (C,) that `settings.balance` asks for."""
    assert settings.balance is not None
    return np.array([*rows_to_make(examples.labels.counts(), settings.balance).values()], dtype=np.int64)


def draw_plan(
    examples: Examples, settings: AugmentationSettings, *, first: int = 0, neighbours: np.ndarray | None = None
) -> Plan:
    """Draw the plan for these rows by `per_row` or `total`; see `find_planner` for `balance`.

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
        unlabelled=examples.unlabelled,
    )


def find_neighbours(examples: Examples, settings: AugmentationSettings) -> np.ndarray | None:
    """The nearest rows of each row; None if the plan does not need them."""
    if settings.partners != "nearest" or not settings.mixes:
        return None
    from linda.augmentation.neighbours import nearest_rows

    return nearest_rows(examples, settings.encoder, progress=settings.progress)
