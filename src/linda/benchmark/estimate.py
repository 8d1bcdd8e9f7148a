"""Estimates how long the missing cells of a grid will take.

Existing cells of the same task, protocol and method give the best estimate. For others the time is estimated from the
number of tokens that are trained on, tested and written. The rates below were measured on one core of a server of
2026; they give an order of magnitude only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from linda.benchmark.cells import Cell, read_cells
from linda.benchmark.grid import CELLS, missing_cells
from linda.benchmark.protocol import Protocol, draw, split
from linda.benchmark.recipes import Recipe
from linda.benchmark.run_cache import run_cache
from linda.benchmark.settings import BenchmarkSettings
from linda.benchmark.tasks import TaskSource
from linda.classifier.contrastive import PAIRS_PER_BATCH

_TOKENS_PER_WORD = 1.35
_SAMPLE = 500  # texts whose words are counted

# Seconds per token on one core, with the six layers of MiniLM.
_TRAINING = 1.2e-3
_TESTING = 3e-4
_BERT_BASE = 8  # times the work of MiniLM, by the parameters of the layers; for every encoder but the default

_FITTING = 1.5e-4  # seconds per row of a quick student: logistic regression, with or without TF-IDF

# Seconds per word that a method writes, on one core.
_WRITING = {"linda": 0.0035, "ssmba": 0.0025, "backtranslation": 0.01}


def estimated_hours(cells: Sequence[Cell], settings: BenchmarkSettings, output: Path, workers: int) -> float:
    """Estimate the hours until the missing cells of a folder are computed.

    Args:
        cells: From `make_grid`.
        settings: Settings of all cells.
        output: The folder of the results; it need not exist yet.
        workers: Cells computed at a time.

    Returns:
        Wall-clock hours.

    Example:
        estimated_hours(make_grid(tasks, recipes, range(5), settings), settings, Path("results"), workers=2)
    """
    measured: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for found in read_cells(output / CELLS):
        seconds = sum(found["seconds"].values())
        measured[found["task"], found["protocol"], found["method"]].append(seconds)
    total, shared = 0.0, _SharedWork()
    for cell in missing_cells(cells, output):
        known = measured.get((cell.task.name, cell.protocol.name, cell.recipe.name))
        total += mean(known) if known else _estimated_seconds(cell, settings, shared)
    return total / workers / 3600


class _SharedWork(dict[Any, float]):
    """Seconds of work that several cells need and that is done once."""

    def once(self, key: Any, seconds: float) -> float:
        """Return the seconds if this is the first cell that needs the work, else 0."""
        return 0.0 if key in self else self.setdefault(key, seconds)


def _estimated_seconds(cell: Cell, settings: BenchmarkSettings, shared: _SharedWork) -> float:
    sizes = _sizes(cell.task, cell.protocol, cell.domain, settings.on, settings.test_size)
    new = _new_rows(cell.recipe, sizes)
    tokens = min(settings.max_length, _TOKENS_PER_WORD * sizes.words)
    same_rows = (cell.task, cell.domain, cell.protocol, cell.seed)
    total = 0.0
    for part in cell.recipe.parts or (cell.recipe,):
        policy = part.policy
        seconds = _new_rows(part, sizes) * sizes.words * _WRITING.get(str(part.source), 0.0)
        if settings.cache is not None:  # the same texts, with other labels or weights
            seconds = shared.once((*same_rows, part.source, policy.partners, policy.ratio, policy.balance), seconds)
        total += seconds
    if cell.recipe.uses_teacher:
        teacher = settings.for_teacher()
        total += shared.once((*same_rows, "teacher"), _training_seconds(cell, teacher, sizes.rows, 0, tokens))
        total += new * tokens * _TESTING * _size(teacher)  # it labels them
    folds = settings.folds_of(cell.recipe)
    total += (1 + max(0, folds - 1)) * _training_seconds(cell, settings, sizes.rows, new, tokens)
    testing = tokens * _TESTING * _size(settings)  # per row
    if settings.kind.trains_encoder:
        return total + sizes.tested * testing
    total += shared.once((cell.task, cell.domain), sizes.tested * testing)
    return total + shared.once((cell.task, cell.domain, cell.seed), sizes.rows * testing) + new * testing


def _new_rows(recipe: Recipe, sizes: _Sizes) -> int:
    if not recipe.augments:
        return 0
    policy = recipe.policy
    if policy.balance:
        return sizes.missing
    pseudo = policy.pseudo_rows
    return sizes.rows * (pseudo + (1 + pseudo) * policy.per_row)


def _training_seconds(cell: Cell, settings: BenchmarkSettings, rows: int, new: int, tokens: float) -> float:
    if not settings.kind.trains_encoder:
        return (rows + new) * _FITTING
    student = settings.student_settings(cell.protocol, cell.recipe, rows, new)
    if not settings.kind.uses_learning_rate:
        return (student.contrastive_updates or 0) * 2 * PAIRS_PER_BATCH * tokens * _TRAINING * _size(settings)
    return (student.updates or 0) * student.batch_size * tokens * _TRAINING * _size(settings)


def _size(settings: BenchmarkSettings) -> float:
    if not settings.kind.uses_encoder:
        return 0.0
    return 1.0 if settings.encoder is None or "minilm" in settings.encoder.lower() else _BERT_BASE


@dataclass(frozen=True)
class _Sizes:
    rows: int  # to train on
    missing: int  # new rows that would make every class as large as the largest
    tested: int
    words: float  # of an average text or pair of texts


@run_cache(maxsize=64)
def _sizes(source: TaskSource, protocol: Protocol, domain: str | None, on: str, test_size: int | None) -> _Sizes:
    task = source.load()
    parts = split(task, domain, on, test_size)
    pool = parts.pool
    step = max(1, len(pool) // _SAMPLE)  # spread over the pool, because some data are sorted
    texts = pool.texts[::step] + (pool.pairs or [])[::step]
    words = sum(len(text.split()) for text in texts) / len(pool.texts[::step])
    counts = Counter(draw(task, pool, protocol, seed=0).labels).values()
    missing = len(counts) * max(counts) - sum(counts)
    return _Sizes(sum(counts), missing, sum(map(len, parts.tests.values())), words)
