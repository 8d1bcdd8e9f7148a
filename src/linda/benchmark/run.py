"""All cells of a grid that are not there yet, several at a time."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, product
from pathlib import Path
from typing import Any

from linda.augmentation.texts import end_with_parent
from linda.benchmark.cells import Cell, Settings, check_cells, check_comparable, read_cells, run_cell, write_cell
from linda.benchmark.methods import Method, check_model
from linda.benchmark.protocol import Protocol, split
from linda.benchmark.tasks import Task, TaskSource
from linda.errors import LindaError
from linda.files.folders import check_output_folder
from linda.files.textio import atomic_writer, writing

CELLS = "cells"
COMMANDS = "commands.txt"


Plan = Sequence[tuple[TaskSource, Sequence[Protocol]]]  # what is trained on


def make_grid(plan: Plan, methods: Sequence[Method], seeds: Sequence[int], settings: Settings) -> list[Cell]:
    """Every combination, one task after the other, a seed's methods together: a run that ends early has whole rows."""
    grid = []
    for source, protocols in plan:
        task = source.load()
        fitting = [protocol.for_pools(_pool_sizes(task, settings)) for protocol in protocols]
        check_cells(task, fitting, methods, settings, seeds)
        for protocol, seed, domain, method in product(fitting, seeds, task.training_domains, methods):
            grid.append(Cell(source, protocol, method, seed, domain))
    settings.models.check(list(methods))
    if settings.encoder is not None:
        check_model(settings.encoder)
    return grid


def _pool_sizes(task: Task, settings: Settings) -> list[int]:
    return [len(split(task, domain, settings.on, settings.test_size).pool) for domain in task.training_domains]


def check_results_folder(output: Path) -> None:
    """Whether results may be written here: beside earlier ones, and over nothing else."""
    check_output_folder(output)
    if not (output / CELLS).is_dir():
        for name in (COMMANDS, "report.md", "results.csv", "cells.csv"):
            if (output / name).exists():
                raise LindaError(f"{output / name} is there and is of no benchmark; give another --output")


def run_grid(
    cells: Sequence[Cell],
    settings: Settings,
    output: Path,
    workers: int = 2,
    progress: bool = True,
    command: str | None = None,
) -> int:
    """Computes what is missing in `output` and says how many cells that was.

    command: the one that asked for them, to be kept with those before it.
    Each of several workers computes on one thread: on small models two cells at a time are faster than one on two
    threads.
    """
    check_comparable(chain(read_cells(output / CELLS), (cell.record(settings) for cell in cells)))
    with _results_folder(output) as folder:
        return _run_missing(cells, settings, folder, workers, progress, command)


@contextmanager
def _results_folder(output: Path) -> Iterator[Path]:
    """The folder of the cells. Where nothing was computed, nothing is left behind."""
    made = [place for place in (output / CELLS, output, *output.absolute().parents) if not place.exists()]
    with writing(output):
        (output / CELLS).mkdir(parents=True, exist_ok=True)
    try:
        yield output / CELLS
    except LindaError:
        if output / CELLS in made and not any((output / CELLS).iterdir()):
            (output / COMMANDS).unlink(missing_ok=True)
            for place in made:
                place.rmdir()
        raise


def _run_missing(
    cells: Sequence[Cell], settings: Settings, folder: Path, workers: int, progress: bool, command: str | None
) -> int:
    from tqdm import tqdm

    if command is not None:
        _keep_command(folder.parent / COMMANDS, command)
    missing = [cell for cell in cells if not (folder / cell.file_name).exists()]
    with tqdm(
        total=len(cells), initial=len(cells) - len(missing), unit="cell", disable=None if progress else True
    ) as bar:
        for result in _results(missing, settings, folder, workers):
            bar.set_postfix_str(f"{result['task']} {result['method']} {result['accuracy']:.1f}", refresh=False)
            bar.update()
    return len(missing)


def _keep_command(file: Path, command: str) -> None:
    known = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
    if command not in known:
        with atomic_writer(file) as writer:
            writer.writelines(f"{line}\n" for line in [*known, command])


def _results(cells: Sequence[Cell], settings: Settings, folder: Path, workers: int) -> Iterator[dict[str, Any]]:
    if workers == 1 or not cells:
        for cell in cells:
            yield _compute(cell, settings, folder)
        return
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(workers, len(cells)), mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker
    )
    try:
        for done in as_completed([pool.submit(_compute, cell, settings, folder) for cell in cells]):
            yield done.result()
    except BrokenProcessPool as error:
        raise LindaError(
            "a worker process died, perhaps for want of memory; use fewer workers (--workers 1)"
        ) from error
    except KeyboardInterrupt:
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _compute(cell: Cell, settings: Settings, folder: Path) -> dict[str, Any]:
    """Written by the process that computed it: a killed run loses only the cells at hand."""
    try:
        result = run_cell(cell, settings)
    except LindaError as error:
        raise LindaError(f"{cell.file_name.removesuffix('.json')}: {error}") from error
    write_cell(folder, cell, result)
    return result


def _start_worker() -> None:
    import torch

    threading.Thread(target=end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    torch.set_num_threads(1)
