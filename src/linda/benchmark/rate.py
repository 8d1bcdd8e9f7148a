"""The learning rate of an encoder: chosen once, with vanilla training, on a validation part of the training data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import mean

from linda.benchmark.cells import Settings, read_cell
from linda.benchmark.methods import parse_method
from linda.benchmark.run import CELLS, Plan, make_grid, run_grid
from linda.files.textio import atomic_writer

FOLDER = "rates"
RATES = (1e-5, 3e-5, 1e-4, 3e-4)

_SEEDS = (0, 1)
_TEST_ROWS = 500


def search_rate(
    plan: Plan, settings: Settings, output: Path, workers: int = 2, progress: bool = True
) -> dict[float, float]:
    """The mean accuracy of each rate over all tasks and protocols: also in `output`/rates/accuracy.csv.

    The cells are kept beside it: a search that was stopped goes on where it was.
    """
    # With a fifth held out, a class may have fewer rows than the shots that it can give to the table itself.
    lenient = [(replace(source, small_classes=True), protocols) for source, protocols in plan]
    accuracy = {}
    for rate in RATES:
        folder = output / FOLDER / f"{rate:g}"
        tried = replace(settings, learning_rate=rate, on="validation", test_size=_TEST_ROWS)
        cells = make_grid(lenient, [parse_method("vanilla")], _SEEDS, tried)
        run_grid(cells, tried, folder, workers, progress)
        accuracy[rate] = mean(read_cell(folder / CELLS, cell)["accuracy"] for cell in cells)
    with atomic_writer(output / FOLDER / "accuracy.csv") as file:
        file.write("learning_rate,accuracy\n")
        file.writelines(f"{rate:g},{found:.3f}\n" for rate, found in accuracy.items())
    return accuracy
