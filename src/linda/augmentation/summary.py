"""Counts of a run, and the summary that is printed at its end."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from linda.augmentation.examples import Examples
from linda.augmentation.gates import Gates
from linda.augmentation.planning import to_make
from linda.augmentation.settings import AugmentationSettings
from linda.augmentation.texts import PROTECTED

_LABELS_SHOWN = 12


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


@dataclass(frozen=True)
class RunSummary:
    """Rows read, rows made, what each gate rejected, and the number of originals and new rows per label."""

    examples: Examples
    tally: Tally
    seconds: float
    settings: AugmentationSettings

    def __str__(self) -> str:
        tally, rows_in = self.tally, len(self.examples.table) - self.examples.unlabelled
        engine = self.settings.engine_name
        by = f" (engine {engine})" if engine else ""
        lines = [f"{rows_in:,} rows in, {tally.made:,} made of {tally.planned:,} planned, {self.seconds:.0f} s{by}"]
        if self.examples.skipped:
            lines.append(f"  {self.examples.skipped:,} rows without text skipped")
        for gate in [*Gates.names(), *([PROTECTED] if self.settings.protected else [])]:
            rejected, lost = tally.stopped[gate], tally.left_out[gate]
            lines.append(f"  {gate:<11}{rejected:>9,} rejected {rejected - lost:>9,} replaced {lost:>9,} left out")
        counts = list(self.examples.labels.counts().items())
        for number, (name, count) in enumerate(counts[:_LABELS_SHOWN]):
            new = tally.labels[number]
            if self.settings.balance is None:
                lines.append(f"  label {name!s:<11}{count:>9,} originals {new:>9,} new")
            else:
                lines.append(f"  label {name!s:<11}{count:>9,} before {count + new:>9,} after{self._remark(number)}")
        if len(counts) > _LABELS_SHOWN:
            lines.append(f"  … {len(counts) - _LABELS_SHOWN} more labels")
        return "\n".join(lines)

    def notes(self) -> Iterator[str]:
        """What the user should know about the result: classes that have fewer rows than balance asks for."""
        if self.settings.balance is None:
            return
        for number, (name, count) in enumerate(self.examples.labels.counts().items()):
            new, wanted = self.tally.labels[number], int(self._wanted[number])
            if new < wanted and count > 1:
                yield (
                    f"the class {name!r} got {new:,} of {wanted:,} new rows, because the gates rejected the others; "
                    "a range of ratios (0.2-0.8) or more retries may give more"
                )

    @cached_property
    def _wanted(self) -> np.ndarray:
        return to_make(self.examples, self.settings)

    def _remark(self, number: int) -> str:
        """What became of a class that has a single row, or too few rows."""
        counts = [*self.examples.labels.counts().values()]
        new, wanted = self.tally.labels[number], self._wanted[number]
        if counts[number] == 1 and wanted:
            return ", its single row was rewritten" if new else ", its single row was left as it is"
        return f", {wanted - new:,} short" if new < wanted else ""
