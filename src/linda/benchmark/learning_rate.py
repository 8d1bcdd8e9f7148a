"""Search for the learning rate of an encoder, with vanilla training on a validation split of the training rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import mean

from linda.benchmark.cells import read_cell
from linda.benchmark.grid import CELLS, CellExecutor, TaskProtocols, make_grid, run_grid
from linda.benchmark.recipes import VANILLA, parse_recipe
from linda.benchmark.settings import BenchmarkSettings
from linda.files.textio import atomic_writer

FOLDER = "rates"
RATES = (1e-5, 3e-5, 1e-4, 3e-4)

_SEEDS = (0, 1)
_TEST_ROWS = 500


def search_rate(
    tasks: TaskProtocols,
    settings: BenchmarkSettings,
    output: Path,
    workers: int = 2,
    progress: bool = True,
    executor: CellExecutor | None = None,
) -> dict[float, float]:
    """Train vanilla with each rate, on all tasks and protocols.

    Args:
        tasks: Each task with its protocols.
        settings: Settings of the benchmark that the rate is for.
        output: The folder. The result is also written to its file rates/accuracy.csv, next to the cells. An interrupted
            search continues where it stopped.
        workers: Processes.
        progress: Show a progress bar.
        executor: Computes the cells, instead of processes on this machine.

    Returns:
        The mean accuracy of each rate.
    """
    # With a fifth of the rows held out, a class may have fewer rows than the protocol draws.
    lenient = [(replace(source, small_classes=True), protocols) for source, protocols in tasks]
    accuracy = {}
    for rate in RATES:
        folder = output / FOLDER / f"{rate:g}"
        tried = replace(settings, learning_rate=rate, on="validation", test_size=_TEST_ROWS, folds=0)
        cells = make_grid(lenient, [parse_recipe(VANILLA)], _SEEDS, tried)
        run_grid(cells, tried, folder, workers, progress, executor=executor)
        accuracy[rate] = mean(read_cell(folder / CELLS, cell)["accuracy"] for cell in cells)
    with atomic_writer(output / FOLDER / "accuracy.csv") as file:
        file.write("learning_rate,accuracy\n")
        file.writelines(f"{rate:g},{found:.3f}\n" for rate, found in accuracy.items())
    return accuracy
