"""The learning rate of an encoder: chosen once, with vanilla training, on a validation part of the training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

from linda.benchmark.cells import Settings, read_cells
from linda.benchmark.methods import parse_method
from linda.benchmark.protocol import Protocol
from linda.benchmark.run import CELLS, make_grid, run_grid
from linda.benchmark.tasks import TaskSource

RATES = (1e-5, 3e-5, 1e-4, 3e-4)

_SEEDS = (0, 1)
_TEST_ROWS = 500


def search_rate(
    tasks: Sequence[TaskSource],
    protocols: Sequence[Protocol],
    settings: Settings,
    output: Path,
    workers: int = 2,
    progress: bool = True,
) -> dict[float, float]:
    """The mean accuracy of each rate over all tasks and protocols. The cells are kept in `output`/rates."""
    accuracy = {}
    for rate in RATES:
        folder = output / "rates" / f"{rate:g}"
        tried = replace(settings, learning_rate=rate, on="validation", test_size=_TEST_ROWS)
        cells = make_grid(tasks, protocols, [parse_method("vanilla")], _SEEDS, tried)
        run_grid(cells, tried, folder, workers, progress)
        accuracy[rate] = mean(cell["accuracy"] for cell in read_cells(folder / CELLS))
    return accuracy
