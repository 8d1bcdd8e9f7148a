"""Every combination of task, protocol, seed and method; computes the cells that are missing, several at a time."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import chain, groupby, product
from pathlib import Path
from typing import Any

from linda.augmentation.texts import end_with_parent
from linda.benchmark.cells import Cell, check_comparable, read_cells, write_cell
from linda.benchmark.models import check_model
from linda.benchmark.protocol import Protocol, draw, split
from linda.benchmark.recipes import Recipe
from linda.benchmark.run_cache import clear_run_caches
from linda.benchmark.settings import REST, BenchmarkSettings
from linda.benchmark.tasks import BenchmarkTask, OwnTask, TaskSource, unlabelled_texts
from linda.benchmark.trial import run_cell
from linda.classifier.students import find_student
from linda.errors import LindaError
from linda.files.cache import open_cache
from linda.files.folders import check_output_folder
from linda.files.textio import atomic_writer, writing

CELLS = "cells"
COMMANDS = "commands.txt"

_JOBS_PER_WORKER = 4


# Computes cells, writes each to the folder, and returns the results in any order.
CellExecutor = Callable[[Sequence[Cell], BenchmarkSettings, Path], Iterator[dict[str, Any]]]
TaskProtocols = Sequence[tuple[TaskSource, Sequence[Protocol]]]


def make_grid(
    tasks: TaskProtocols, recipes: Sequence[Recipe], seeds: Sequence[int], settings: BenchmarkSettings
) -> list[Cell]:
    """Return all cells, by task and then by seed, so that an interrupted run has complete rows.

    Args:
        tasks: Each task with its protocols. A protocol with an unnamed rare class is repeated for each class.
        recipes: The methods.
        seeds: The seeds.
        settings: Settings of all cells.

    Returns:
        The cells. A cell that cannot be computed raises a LindaError here, before hours of work.

    Example:
        >>> tasks = [(OwnTask("reviews", Path("train.csv"), Path("test.csv")), [Protocol(shots=10)])]
        >>> recipes = [parse_recipe(name) for name in ("vanilla", "eda", "linda")]
        >>> len(make_grid(tasks, recipes, range(5), BenchmarkSettings(student="tfidf")))
        15
    """
    clear_run_caches()
    if any(isinstance(source, OwnTask) and source.multi_label for source, _ in tasks):
        _check_multi_label(recipes, settings)
    _check_models(recipes, settings)
    grid = []
    for source, protocols in tasks:
        task = source.load()
        sizes = [len(split(task, domain, settings.on, settings.test_size).pool) for domain in task.training_domains]
        expanded = [one for protocol in protocols for one in protocol.for_task(task, sizes)]
        _check_draws(task, expanded, recipes, settings, seeds)
        for protocol, seed, domain, recipe in product(expanded, seeds, task.training_domains, recipes):
            grid.append(Cell(source, protocol, recipe, seed, domain))
    return grid


def _check_models(recipes: Sequence[Recipe], settings: BenchmarkSettings) -> None:
    for recipe in recipes:
        recipe.check_student(settings.kind, settings.folds_of(recipe))
        if recipe.uses_unlabelled and settings.unlabelled is None:
            raise LindaError(f"{recipe.name} needs unlabelled texts: give --unlabelled FILE, or --unlabelled {REST}")
    if settings.teacher is not None:
        find_student(settings.teacher)
    if settings.unlabelled is not None and settings.unlabelled != REST:
        unlabelled_texts(settings.unlabelled, settings.text, settings.label)
    settings.models.check({str(source) for recipe in recipes if recipe.augments for source in recipe.sources})
    for encoder in (settings.encoder, settings.teacher_encoder):
        if encoder is not None:
            check_model(encoder)


def _check_multi_label(recipes: Sequence[Recipe], settings: BenchmarkSettings) -> None:
    for recipe in recipes:
        recipe.check_multi_label()
    names = [settings.student, *(settings.teacher_name for recipe in recipes if recipe.uses_teacher)]
    for name in names:
        if not find_student(name).takes_multi_label:
            raise LindaError(
                f"the student {name} takes one label per row; with --multi-label use finetune, probe, tfidf or a "
                "scikit-learn pipeline"
            )


def _check_draws(
    task: BenchmarkTask,
    protocols: list[Protocol],
    recipes: Sequence[Recipe],
    settings: BenchmarkSettings,
    seeds: Sequence[int],
) -> None:
    """Draw the rows of every cell of a task once, to find errors early."""
    needs_rest = settings.unlabelled == REST and any(recipe.uses_unlabelled for recipe in recipes)
    pairing = next((recipe for recipe in recipes if recipe.needs_same_label), None)
    for domain in task.training_domains:
        pool = split(task, domain, settings.on, settings.test_size).pool
        for protocol in protocols:
            for seed in seeds:
                drawn = draw(task, pool, protocol, seed)
                if pairing is not None and len(set(drawn.kinds)) == len(drawn):
                    raise LindaError(
                        f"{task.name} ({protocol.name}): no two of the drawn rows have the same label, but "
                        f"{pairing.name} mixes such rows; draw more rows, or use {pairing.name}+partners=any"
                    )
            if needs_rest and len(drawn) == len(pool):
                raise LindaError(
                    f"{task.name} ({protocol.name}): every training row is drawn, so none is left as "
                    f"unlabelled text (--unlabelled {REST}); draw fewer, or give a file"
                )


def check_results_folder(output: Path) -> None:
    """Raise a LindaError if the folder has files with the names of results that are not from a benchmark."""
    check_output_folder(output)
    if not (output / CELLS).is_dir():
        for name in (COMMANDS, "report.md", "results.csv", "cells.csv"):
            if (output / name).exists():
                raise LindaError(f"{output / name} already exists and is not from a benchmark; give another --output")


def run_grid(
    cells: Sequence[Cell],
    settings: BenchmarkSettings,
    output: Path,
    workers: int = 2,
    progress: bool = True,
    command: str | None = None,
    executor: CellExecutor | None = None,
) -> int:
    """Compute the cells that are missing in a folder.

    Args:
        cells: From `make_grid`.
        settings: Settings of all cells.
        output: The folder; cells go to its subfolder `cells`.
        workers: Processes. Each of several computes on one thread: with small models, two cells at a time are faster
            than one on two threads.
        progress: Show a progress bar.
        command: The command line, added to `commands.txt` in the folder.
        executor: Computes the cells, instead of `workers` processes on this machine.

    Returns:
        The number of cells that were computed.

    Example:
        >>> settings = BenchmarkSettings(student="tfidf")
        >>> run_grid(make_grid(tasks, recipes, range(5), settings), settings, Path("results"))
        15
    """
    check_comparable(chain(read_cells(output / CELLS), (cell.record(settings) for cell in cells)))
    if settings.cache is not None:
        open_cache(Path(settings.cache))  # raises if it is another kind of file
    with _results_folder(output) as folder:
        return _run_missing(cells, settings, folder, progress, command, executor or partial(_on_this_machine, workers))


@contextmanager
def _results_folder(output: Path) -> Iterator[Path]:
    """Yield the folder of the cells. A new folder is removed on an error before the first result."""
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
    cells: Sequence[Cell],
    settings: BenchmarkSettings,
    folder: Path,
    progress: bool,
    command: str | None,
    executor: CellExecutor,
) -> int:
    from tqdm import tqdm

    if command is not None:
        _keep_command(folder.parent / COMMANDS, command)
    missing = missing_cells(cells, folder.parent)
    with tqdm(
        total=len(cells), initial=len(cells) - len(missing), unit="cell", disable=None if progress else True
    ) as bar:
        for result in executor(missing, settings, folder) if missing else ():
            # There is no accuracy with several labels per row.
            score = f" {result['accuracy']:.1f}" if "accuracy" in result else ""
            bar.set_postfix_str(f"{result['task']} {result['method']}{score}", refresh=False)
            bar.update()
    return len(missing)


def missing_cells(cells: Sequence[Cell], output: Path) -> list[Cell]:
    """Return the cells that a folder of results does not have yet."""
    return [cell for cell in cells if not (output / CELLS / cell.file_name).exists()]


def _keep_command(file: Path, command: str) -> None:
    known = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
    if command not in known:
        with atomic_writer(file) as writer:
            writer.writelines(f"{line}\n" for line in [*known, command])


def _on_this_machine(
    workers: int, cells: Sequence[Cell], settings: BenchmarkSettings, folder: Path
) -> Iterator[dict[str, Any]]:
    if workers == 1:
        for cell in cells:
            yield compute_cell(cell, settings, folder)
        return
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(workers, len(cells)), mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker
    )
    try:
        jobs = [pool.submit(_compute_cells, part, settings, folder) for part in _jobs(cells, workers)]
        for done in as_completed(jobs):
            yield from done.result()
    except BrokenProcessPool as error:
        raise LindaError("a worker process died, possibly out of memory; use fewer workers (--workers 1)") from error
    except KeyboardInterrupt:
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _jobs(cells: Sequence[Cell], workers: int) -> list[list[Cell]]:
    """Group cells with the same training rows: their teacher, and vectors of their texts, are computed once.

    Few groups are split into cells, so that no worker is idle for long.
    """
    groups = groupby(cells, key=lambda cell: (cell.task, cell.protocol, cell.seed, cell.domain))
    jobs = [list(group) for _, group in groups]
    return jobs if len(jobs) >= _JOBS_PER_WORKER * workers else [[cell] for cell in cells]


def _compute_cells(cells: Sequence[Cell], settings: BenchmarkSettings, folder: Path) -> list[dict[str, Any]]:
    return [compute_cell(cell, settings, folder) for cell in cells]


def compute_cell(cell: Cell, settings: BenchmarkSettings, folder: Path) -> dict[str, Any]:
    """Compute and write a cell, so that a killed run loses only the cells in progress."""
    try:
        result = run_cell(cell, settings)
    except LindaError as error:
        raise LindaError(f"{cell.file_name.removesuffix('.json')}: {error}") from error
    write_cell(folder, cell, result)
    return result


def _start_worker() -> None:
    import torch

    threading.Thread(target=end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    torch.set_num_threads(1)
