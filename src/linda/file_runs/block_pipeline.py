"""All steps for one block: block in, part out. Every executor runs this, on any machine."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from linda.augmentation import Augmenter
from linda.augmentation.pipeline import augment_rows, checked_examples, find_neighbours
from linda.augmentation.settings import AugmentationSettings
from linda.augmentation.summary import Tally
from linda.augmentation.tables import joined_batches
from linda.augmentation.teacher import find_teacher
from linda.augmentation.texts import WriteAll
from linda.file_runs import blocks
from linda.file_runs.journal import Journal
from linda.file_runs.parts import Manifest, PartsFolder
from linda.files.spool import Spool
from linda.files.textio import atomic_path
from linda.planning.balance import BalancedPlanner
from linda.planning.examples import Examples
from linda.planning.plan import Plan


class PartWriter(ExitStack):
    """Writes the parts of a run. The model and the workers are started by the first block and serve all of them.

    Args:
        folder: The run, with its manifest and the input of the blocks.
        manifest: The manifest of the run.
        augmenter: The settings and the model.
        plan: A plan for the whole table. By default each block draws its own.
        keep_journals: Keep finished chunks in the folder, so that a killed block continues where it stopped. Needs a
            local folder, and no two processes may compute the same block.

    Example:
        with PartWriter(folder, manifest, augmenter) as write_part:
            for number in folder.missing(manifest):
                write_part(number)
    """

    def __init__(
        self,
        folder: PartsFolder,
        manifest: Manifest,
        augmenter: Augmenter,
        plan: Plan | None = None,
        *,
        keep_journals: bool = True,
    ) -> None:
        super().__init__()
        self._folder, self._manifest, self._augmenter, self._plan = folder, manifest, augmenter, plan
        self._settings = augmenter.settings
        self._keep_journals = keep_journals
        self._teacher: Any = None

    def __call__(self, number: int) -> None:
        """Write the part of a block: originals and new rows. It appears only when it is complete."""
        table, schema = self._manifest.table, self._manifest.schema
        block = table.blocks[number]
        with self._folder.storage.reading(self._folder.block_input(number)) as path, self._journal(number) as journal:
            spool = Spool(path)
            row_numbers = self._folder.row_numbers(self._manifest, block)
            examples = checked_examples(spool, self._settings, table.classes, row_numbers)
            neighbours = None if self._plan is not None else _neighbours(self._settings, examples, journal)
            plan, planner = blocks.plan_block(examples, self._settings, block, table, self._plan, neighbours)
            self._generate(examples, plan, planner, journal)
            rows = chain.from_iterable(chunk.rows for chunk in journal.chunks())
            batches = joined_batches(spool, examples, rows, self._settings, schema, row_numbers)
            tally = sum((chunk.tally for chunk in journal.chunks()), Tally())
            self._folder.write_part(self._manifest, number, batches, tally)
            journal.remove()

    def _generate(self, examples: Examples, plan: Plan, planner: BalancedPlanner | None, journal: Journal) -> None:
        """Append the chunks of the plan that are missing in the journal."""
        if journal.rows_done() == len(plan) and (planner is None or not len(plan)):
            return
        if self._teacher is None:
            self._teacher = find_teacher(examples, self._settings)
        done = journal.chunks()
        for chunk in augment_rows(examples, plan, self._settings, self._write_all, self._teacher, done, planner):
            journal.append(chunk)

    @cached_property
    def _write_all(self) -> WriteAll:
        return self.enter_context(self._augmenter.writing())

    @contextmanager
    def _journal(self, number: int) -> Iterator[Journal]:
        kept = self._folder.journal_folder(number) if self._keep_journals else None
        with tempfile.TemporaryDirectory() as temporary, Journal(kept or Path(temporary) / "journal") as journal:
            yield journal


def write_parts_here(
    folder: PartsFolder, manifest: Manifest, augmenter: Augmenter, plan: Plan | None, numbers: Sequence[int]
) -> None:
    """Write parts on this machine: one block after the other, with the number of processes in the settings."""
    with PartWriter(folder, manifest, augmenter, plan) as write_part:
        for number in numbers:
            write_part(number)


def _neighbours(settings: AugmentationSettings, examples: Examples, journal: Journal) -> np.ndarray | None:
    """Find the nearest rows. They are kept in the journal, because rounding errors differ between machines."""
    if journal.neighbours.exists():
        return np.asarray(np.load(journal.neighbours))
    neighbours = find_neighbours(examples, settings)
    if neighbours is not None:
        with atomic_path(journal.neighbours) as part, part.open("wb") as file:
            np.save(file, neighbours)
    return neighbours
