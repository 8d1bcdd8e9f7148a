"""The plan of a run: given, drawn, or drawn so that classes are balanced."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from linda.augmentation.examples import Examples
from linda.augmentation.labels import LabelName, shown
from linda.augmentation.planning.balance import BalancedPlanner, rows_to_make
from linda.augmentation.planning.plan import Plan, make_plan
from linda.augmentation.settings import AugmentationSettings
from linda.errors import LindaError, checked_kind


def notes(examples: Examples, settings: AugmentationSettings, *, plan_is_given: bool) -> Iterator[str]:
    """What the user should know about these rows."""
    yield from examples.notes
    if not plan_is_given:
        codes = examples.labels.codes
        yield from plan_notes(examples.labels.counts(), [np.bincount(codes[codes >= 0]).tolist()], settings)


def plan_notes(
    counts: Mapping[LabelName, int], label_rows: Sequence[Sequence[int]], settings: AugmentationSettings
) -> Iterator[str]:
    """What the user should know about a plan that will be drawn.

    Args:
        counts: Rows of each class.
        label_rows: Rows of each label, for each block of the table. Several classes can be one label.
        settings: Which partners and how many.

    Returns:
        Messages: rows that get no new row, classes that need none.

    Example:
        list(plan_notes({"no": 5, "yes": 1}, [[5, 1]], AugmentationSettings()))
    """
    if settings.unlabelled is not None:
        return
    needs_pairs = settings.mixes and settings.partners == "same"
    if settings.balance is not None:
        yield from _balance_notes(counts, settings, needs_pairs)
        return
    single = sum(rows == 1 for block in label_rows for rows in block)
    # If no label has two rows, drawing the plan raises an error.
    can_draw = any(rows > 1 for block in label_rows for rows in block)
    if single and can_draw and needs_pairs:
        where = "" if len(label_rows) == 1 else " in their block"
        yield (
            f"{single:,} rows have a label that no other row{where} has, so they get no new rows; "
            "--partners any includes them"
        )


def _balance_notes(counts: Mapping[LabelName, int], settings: AugmentationSettings, needs_pairs: bool) -> Iterator[str]:
    missing = to_make(counts, settings)
    if not missing.any():
        yield "every class already has the requested number of rows; there is nothing to add"
    single = [name for (name, count), rows in zip(counts.items(), missing, strict=True) if count == 1 and rows]
    if single and needs_pairs:
        yield (
            f"classes with a single row, which has no partner, stay as they are: {shown(single)}; "
            "fill them with --partners any, or with a method that needs no partner (--method eda)"
        )


def planned_rows(
    examples: Examples,
    settings: AugmentationSettings,
    plan: Plan | None = None,
    neighbours: np.ndarray | None = None,
    missing: np.ndarray | None = None,
) -> tuple[Plan, BalancedPlanner | None]:
    """The plan, given or drawn, and the planner that can extend it, if classes are balanced.

    Args:
        examples: The rows.
        settings: Which partners, how many and at which ratio.
        plan: The plan, if it is given.
        neighbours: Result of `find_neighbours`, if it is known.
        missing: New rows of each class (C,), if classes are balanced. By default, the result of `to_make`.

    Returns:
        The plan, and the planner or None.

    Example:
        plan, planner = planned_rows(examples, AugmentationSettings(balance=True))
    """
    if plan is not None:
        checked_kind(plan, "plan", Plan, "a linda.Plan, such as Plan.read(FILE)")
        check_no_balance(settings)
        plan.check_fits(examples.labels.codes, examples.unlabelled)
        return plan, None
    if settings.balance is None:
        return draw_plan(examples, settings, neighbours=neighbours), None
    missing = to_make(examples.labels.counts(), settings) if missing is None else missing
    neighbours = find_neighbours(examples, settings) if neighbours is None else neighbours
    planner = find_planner(examples.labels.codes, missing, settings, neighbours)
    planner.check_limits(examples.labels.counts())
    return planner.draw(), planner


def check_no_balance(settings: AugmentationSettings) -> None:
    """Raise a `LindaError` if a plan is given and classes are to be balanced."""
    if settings.balance is not None:
        raise LindaError("a plan already determines the new rows; leave out the plan or balance")


def find_planner(
    codes: np.ndarray, missing: np.ndarray, settings: AugmentationSettings, neighbours: np.ndarray | None = None
) -> BalancedPlanner:
    """The planner that fills up classes.

    Args:
        codes: Class of each row (n,); −1 for skipped rows.
        missing: New rows of each class (C,).
        settings: Which partners and at which ratio.
        neighbours: Result of `find_neighbours`.

    Returns:
        The planner.

    Example:
        find_planner(np.array([0, 0, 1, 1, 1]), np.array([1, 0]), AugmentationSettings(balance=True))
    """
    return BalancedPlanner(
        codes,
        missing,
        partners=settings.partners if settings.mixes else None,
        ratio=settings.ratio,
        seed=settings.seed,
        neighbours=neighbours,
    )


def to_make(counts: Mapping[LabelName, int], settings: AugmentationSettings) -> np.ndarray:
    """New rows of each class (C,) that `settings.balance` requires. `counts`: rows of each class."""
    assert settings.balance is not None
    return np.array([*rows_to_make(counts, settings.balance).values()], dtype=np.int64)


def draw_plan(
    examples: Examples, settings: AugmentationSettings, *, first: int = 0, neighbours: np.ndarray | None = None
) -> Plan:
    """Draw the plan for these rows by `per_row` or `total`; see `planned_rows` for `balance`.

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
    from linda.augmentation.planning.neighbours import nearest_rows

    return nearest_rows(examples, settings.encoder, progress=settings.progress)
