"""What a run made, in a few lines."""

from dataclasses import dataclass

from linda.augmentation.examples import Examples
from linda.augmentation.gates import Gates
from linda.augmentation.generation import Tally

_LABELS_SHOWN = 12


@dataclass(frozen=True)
class Summary:
    """Rows in, rows made, what each gate did, and how often each label stands in originals and new rows."""

    examples: Examples
    tally: Tally
    seconds: float
    engine: str | None  # that wrote the texts, if one did

    def __str__(self) -> str:
        tally, rows_in = self.tally, len(self.examples.table)
        by = f" (engine {self.engine})" if self.engine else ""
        lines = [f"{rows_in:,} rows in, {tally.made:,} made of {tally.planned:,} planned, {self.seconds:.0f} s{by}"]
        if self.examples.skipped:
            lines.append(f"  {self.examples.skipped:,} rows without text skipped")
        for gate in Gates.names():
            stopped, left_out = tally.stopped[gate], tally.left_out[gate]
            lines.append(f"  {gate:<11}{stopped:>9,} stopped {stopped - left_out:>9,} mended {left_out:>9,} left out")
        counts = list(self.examples.labels.counts().items())
        for number, (name, count) in enumerate(counts[:_LABELS_SHOWN]):
            lines.append(f"  label {name!s:<11}{count:>9,} originals {tally.labels[number]:>9,} new")
        if len(counts) > _LABELS_SHOWN:
            lines.append(f"  … {len(counts) - _LABELS_SHOWN} more labels")
        return "\n".join(lines)
