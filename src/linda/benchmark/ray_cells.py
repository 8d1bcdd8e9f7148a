"""Computes cells on a Ray cluster. Each actor writes its cells itself, to the folder that all machines share."""

import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from linda import __version__
from linda.benchmark.cells import Cell
from linda.benchmark.grid import compute_cell
from linda.benchmark.settings import REST, BenchmarkSettings
from linda.benchmark.tasks import NamedTask, TaskSource
from linda.errors import LindaError
from linda.file_runs.ray_pool import RayPool, absolute_path, check_version


class CellActor:
    """Computes cells on one thread, like each process of `run_grid`, so the scores are the same.

    Args:
        settings: Of all cells.
        folder: Folder of the cells.
        version: Version of linda that started the run.
    """

    def __init__(self, settings: BenchmarkSettings, folder: Path, version: str) -> None:
        self._settings, self._folder, self._version = settings, folder, version

    def ready(self) -> None:
        import torch

        torch.set_num_threads(1)

    def compute(self, cell: Cell) -> dict[str, Any]:
        """Compute a cell and write it."""
        check_version(self._version)
        if not self._folder.is_dir():
            host = socket.gethostname()
            raise LindaError(
                f"the worker on {host} finds no folder {self._folder}; give an --output that all machines share"
            )
        return compute_cell(cell, self._settings, self._folder)


@dataclass(frozen=True)
class RayCells:
    """Computes cells on a Ray cluster: an executor of `run_grid`."""

    pool: RayPool

    def __call__(self, cells: Sequence[Cell], settings: BenchmarkSettings, folder: Path) -> Iterator[dict[str, Any]]:
        arguments = _settings_with_absolute_paths(settings), folder.absolute(), __version__
        placed = [replace(cell, task=_task_with_absolute_paths(cell.task)) for cell in cells]
        yield from self.pool.completed(CellActor, arguments, placed, lambda cell: cell.file_name.removesuffix(".json"))


def _settings_with_absolute_paths(settings: BenchmarkSettings) -> BenchmarkSettings:
    """Use absolute paths, because the actors have another working folder."""
    names = ("linda", "masked", "there", "back", "trigrams")
    return replace(
        settings,
        models=replace(settings.models, **{name: absolute_path(getattr(settings.models, name)) for name in names}),
        encoder=absolute_path(settings.encoder),
        teacher_encoder=absolute_path(settings.teacher_encoder),
        unlabelled=settings.unlabelled if settings.unlabelled == REST else absolute_path(settings.unlabelled),
    )


def _task_with_absolute_paths(task: TaskSource) -> TaskSource:
    if isinstance(task, NamedTask):
        return task if task.data is None else replace(task, data=task.data.absolute())
    return replace(task, train=task.train.absolute(), test=task.test.absolute())
