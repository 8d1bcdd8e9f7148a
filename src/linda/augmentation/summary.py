"""What the user is told about a run: notes before it, and counts after it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linda.augmentation.gates import Gates
from linda.augmentation.settings import AugmentationSettings
from linda.augmentation.texts import PROTECTED
from linda.planning.balance import rows_to_make
from linda.planning.labels import LabelName, shown

_LABELS_SHOWN = 12


# --- before -----------------------------------------------------------------------------------------------------


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
    assert settings.balance is not None
    missing = rows_to_make(counts, settings.balance)
    if not any(missing.values()):
        yield "every class already has the requested number of rows; there is nothing to add"
    single = [name for name, rows in missing.items() if counts[name] == 1 and rows]
    if single and needs_pairs:
        yield (
            f"classes with a single row, which has no partner, stay as they are: {shown(single)}; "
            "fill them with --partners any, or with a method that needs no partner (--method eda)"
        )


# --- after ------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """Counts of plan rows and new rows. A row counts for the gate that rejected its first text."""

    planned: int = 0
    made: int = 0
    stopped: Counter[str] = field(default_factory=Counter)  # first text rejected, by gate
    left_out: Counter[str] = field(default_factory=Counter)  # all texts rejected, by the gate of the first
    labels: Counter[int] = field(default_factory=Counter)  # new rows by their most likely class

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, name) + getattr(other, name) for name in vars(self)))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Tally":
        """From `vars` of a tally that was written as JSON."""
        labels = Counter({int(code): count for code, count in values["labels"].items()})  # JSON keys are strings
        counters = {name: Counter(values[name]) for name in ("stopped", "left_out")}
        return cls(**{**values, **counters, "labels": labels})


@dataclass(frozen=True)
class RunSummary:
    """Rows read, rows made, what each gate rejected, and the number of originals and new rows per label."""

    rows: int  # of the table
    skipped: int  # of them, without text
    counts: Mapping[LabelName, int]  # originals of each class
    tally: Tally
    seconds: float
    settings: AugmentationSettings
    wanted: np.ndarray | None = None  # new rows of each class (C,), if classes are balanced

    def __str__(self) -> str:
        tally = self.tally
        engine = self.settings.engine_name
        by = f" (engine {engine})" if engine else ""
        lines = [f"{self.rows:,} rows in, {tally.made:,} made of {tally.planned:,} planned, {self.seconds:.0f} s{by}"]
        if self.skipped:
            lines.append(f"  {self.skipped:,} rows without text skipped")
        for gate in [*Gates.names(), *([PROTECTED] if self.settings.protected else [])]:
            rejected, lost = tally.stopped[gate], tally.left_out[gate]
            lines.append(f"  {gate:<11}{rejected:>9,} rejected {rejected - lost:>9,} replaced {lost:>9,} left out")
        for number, (name, count) in enumerate(list(self.counts.items())[:_LABELS_SHOWN]):
            new = tally.labels[number]
            if self.wanted is None:
                lines.append(f"  label {name!s:<11}{count:>9,} originals {new:>9,} new")
            else:
                remark = self._remark(count, new, self.wanted[number])
                lines.append(f"  label {name!s:<11}{count:>9,} before {count + new:>9,} after{remark}")
        if len(self.counts) > _LABELS_SHOWN:
            lines.append(f"  … {len(self.counts) - _LABELS_SHOWN} more labels")
        return "\n".join(lines)

    def notes(self) -> Iterator[str]:
        """What the user should know about the result: classes with fewer rows than requested."""
        if self.wanted is None:
            return
        for number, (name, count) in enumerate(self.counts.items()):
            new, wanted = self.tally.labels[number], int(self.wanted[number])
            if new < wanted and count > 1:
                yield (
                    f"the class {name!r} got {new:,} of {wanted:,} new rows, because the gates rejected the others; "
                    "a range of ratios (0.2-0.8) or more retries may give more"
                )

    @staticmethod
    def _remark(count: int, new: int, wanted: int) -> str:
        """Note on a class with a single row or too few new rows."""
        if count == 1 and wanted:
            return ", its single row was rewritten" if new else ", its single row was left as it is"
        return f", {wanted - new:,} short" if new < wanted else ""
