"""The pipeline on data in memory: parallel lists, pandas and `datasets`."""

import sys
import time
import warnings
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from linda.augmentation.pipeline import augment_rows, checked_examples, planned_rows
from linda.augmentation.settings import AugmentationSettings
from linda.augmentation.summary import RunSummary, Tally, plan_notes
from linda.augmentation.tables import NewRow, as_table, is_a, joined, joined_lists, known_classes, new_columns
from linda.augmentation.teacher import find_teacher
from linda.augmentation.texts import WriteAll, Writer, write_here, write_in_processes
from linda.errors import LindaError, checked_kind
from linda.planning.balance import BalancedPlanner
from linda.planning.examples import Examples
from linda.planning.plan import NoPartnerError, Plan


def augment(data: Any, text: str = "text", label: str = "label", *, plan: Plan | None = None, **settings: Any) -> Any:
    """Add new rows to labelled data.

    Args:
        data: A pandas DataFrame, a `datasets.Dataset`, a `DatasetDict` (only its split "train" is augmented), or
            parallel lists as {"text": [...], "label": [...]}.
        text: Text column.
        label: Label column.
        plan: Which rows to mix, and at which ratio. By default it is drawn.
        **settings: Any other field of `AugmentationSettings`.

    Returns:
        The originals and the new rows, of the same type as the data; for parallel lists, a list of rows.

    Example:
        bigger = linda.augment(frame, text="text", label="label", per_row=2, seed=1)
    """
    return Augmenter(text=text, label=label, **settings).augment(data, plan)


class Augmenter:
    """Settings and the model that they name, for repeated use: the model is loaded once.

    Args:
        settings: The settings. By default those of `AugmentationSettings`.
        **changes: Settings by their names, instead of those.

    Attributes:
        settings: The `AugmentationSettings`.

    Example:
        augmenter = Augmenter(per_row=2, seed=7)
        bigger = augmenter.augment(frame)
        dataset.map(augmenter, batched=True, with_indices=True)
    """

    def __init__(self, settings: AugmentationSettings | None = None, **changes: Any) -> None:
        wanted = "an AugmentationSettings; give single settings by name, as per_row=2"
        checked_kind(settings, "settings", (AugmentationSettings, NoneType), wanted)
        self.settings = AugmentationSettings(**changes) if settings is None else replace(settings, **changes)

    def augment(self, data: Any, plan: Plan | None = None) -> Any:
        """The originals and the new rows. See `linda.augment`."""
        settings = self.settings
        if is_a(data, "datasets", "DatasetDict"):
            if "train" not in data:
                raise LindaError(f'the DatasetDict has no split "train", only {", ".join(data)}; give one Dataset')
            return type(data)({**data, "train": self.augment(data["train"], plan)})
        examples = checked_examples(as_table(data), settings, known_classes(data, settings.label))
        counts = examples.labels.counts()
        sets = np.bincount(examples.labels.codes[examples.kept]).tolist()
        for note in [*examples.notes, *(plan_notes(counts, [sets], settings) if plan is None else ())]:
            warnings.warn(note, stacklevel=2)
        start = time.monotonic()
        plan, planner = planned_rows(examples, settings, plan)
        rows, tally = self._new_rows(examples, plan, planner)
        seconds = time.monotonic() - start
        count = len(examples.table) - examples.unlabelled
        wanted = None if planner is None else planner.to_make
        summary = RunSummary(count, examples.skipped, counts, tally, seconds, settings, wanted)
        if settings.progress:
            print(summary, file=sys.stderr)
        for note in summary.notes():
            warnings.warn(note, stacklevel=2)
        return joined(data, examples, new_columns(examples, rows, settings), settings)

    def __call__(self, batch: dict[str, list[Any]], indices: list[int] | None = None) -> dict[str, list[Any]]:
        """Augment a batch of `datasets.map(batched=True)`. The partners of a row are the other rows of its batch.

        With `with_indices=True`, ratios differ between batches, and parents are row numbers of the whole data set.
        """
        settings = self.settings
        if settings.total is not None:
            raise LindaError("total is the number of new rows of a whole table; use per_row with datasets.map")
        if settings.balance is not None:
            raise LindaError("balance needs a whole table; give the data set to linda.augment instead of datasets.map")
        if settings.unlabelled is not None:
            raise LindaError("unlabelled texts are partners for a whole table; give the data set to linda.augment")
        batch = dict(batch)  # `datasets` passes a mapping that formats its columns on access
        examples = checked_examples(as_table(batch), settings)
        first = indices[0] if indices else 0
        try:
            plan, _ = planned_rows(examples, settings, first=first * settings.per_row)
        except NoPartnerError:  # the last batch of a data set may be a single row
            plan = Plan.of([])
        rows, _ = self._new_rows(examples, plan)
        new = new_columns(examples, rows, settings, range(first, first + len(examples.table)))
        return joined_lists(batch, examples, new, settings)

    def writing(self) -> AbstractContextManager[WriteAll]:
        """The writer of this augmenter, or worker processes with their own writers."""
        settings = self.settings
        if settings.workers == 1:
            return write_here(self._writer)
        if not isinstance(settings.method, str) or not isinstance(settings.model, str | Path | None):
            raise LindaError("with several workers, give the method and its model by name: each worker loads its own")
        return write_in_processes(partial(_load_writer, replace(settings, teacher=None)), settings.workers)

    @cached_property
    def _writer(self) -> Writer:
        return _load_writer(self.settings)

    def _new_rows(
        self, examples: Examples, plan: Plan, planner: BalancedPlanner | None = None
    ) -> tuple[list[NewRow], Tally]:
        if not len(plan):
            return [], Tally()
        with self.writing() as write_all:
            teacher = find_teacher(examples, self.settings)
            chunks = list(augment_rows(examples, plan, self.settings, write_all, teacher, planner=planner))
        return [row for chunk in chunks for row in chunk.rows], sum((chunk.tally for chunk in chunks), Tally())

    def __getstate__(self) -> dict[str, Any]:
        """The settings alone: `datasets.map` hashes and sends this state, and must not include a loaded model."""
        return {"settings": self.settings}


def _load_writer(settings: AugmentationSettings) -> Writer:
    return Writer(settings.load_method(), settings.gates, settings.retries, settings.protected)
