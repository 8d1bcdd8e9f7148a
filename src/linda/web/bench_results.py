"""Results in folders of `linda bench`. The cells are read for every request, because a run may be adding to them."""

from pathlib import Path
from typing import Any

from linda.benchmark.cells import checked_cell, read_cells
from linda.benchmark.grid import CELLS
from linda.benchmark.reporting.advice import advise
from linda.benchmark.reporting.results import VANILLA, Results, collect
from linda.errors import LindaError
from linda.files.paths import checked_path

_NO_ACCURACY = "These results have no accuracy, because rows have several labels. See report.md in their folder."


def checked_folder(folder: str) -> Path:
    """Check a folder of results, which may still be empty."""
    path = checked_path(folder)
    if not path.is_dir():
        raise LindaError(f"--bench {folder} is not a folder; give one that `linda bench --output` writes")
    return path.resolve()


def read_results(folder: Path) -> dict[str, Any]:
    """Return accuracies, gains over vanilla with their intervals, and advice."""
    return _results(list(read_cells(folder / CELLS)))


def results_of_upload(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the same for cells uploaded by a client, which are not trusted."""
    try:
        return _results([checked_cell(cell) for cell in cells])
    except LindaError as error:
        raise LindaError(f"these are not results of linda bench ({error}); send the files in `cells`") from error


def _results(cells: list[dict[str, Any]]) -> dict[str, Any]:
    results = collect(cells)
    return {
        "cells": len(results.cells),
        "seeds": results.all_seeds if results.cells else 0,
        "advice": advise(results) if results.columns or not cells else [_NO_ACCURACY],
        "columns": [_column(results, column) for column in results.columns],
    }


def _column(results: Results, column: tuple[str, str, str]) -> dict[str, Any]:
    task, protocol, test = column
    best = results.best(column)
    methods = []
    for method in results.methods:
        accuracy = results.summary(column, method)
        if accuracy is None:
            continue
        gain = None if method == VANILLA else results.gain(column, method)
        methods.append(
            {
                "method": method,
                "mean": accuracy.mean,
                "std": accuracy.std,
                "seeds": accuracy.count,
                "is_best": method in best,
                "gain": gain and {"mean": gain.mean, "margin": gain.margin, "is_clear": gain.is_clear},
            }
        )
    return {"task": task, "protocol": protocol, "test": test, "methods": methods}
