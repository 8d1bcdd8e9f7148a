"""How long the missing cells of a grid will take, before they are computed.

Cells of the same task, protocol and method that are already there tell it best. For others the time is estimated from
the number of tokens that are trained on, tested and written. The rates below were measured on one core of a server of
2026; they are meant for "an afternoon or a week?", not for comparing machines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from statistics import mean

from linda.benchmark.cells import Cell, read_cells
from linda.benchmark.grid import CELLS, missing_cells
from linda.benchmark.protocol import Protocol, draw, split
from linda.benchmark.settings import BenchmarkSettings
from linda.benchmark.tasks import TaskSource

_TOKENS_PER_WORD = 1.35
_SAMPLE = 500  # texts whose words are counted

# Seconds per token on one core, with the six layers of MiniLM. Of quick students only the encoding counts.
_TRAINING = 1.2e-3
_TESTING = 3e-4
_BERT_BASE = 8  # times the work of MiniLM, by the parameters of the layers; for every encoder but the default

# Seconds per word that a method writes, on one core.
_WRITING = {"linda": 0.0035, "ssmba": 0.0025, "backtranslation": 0.01}


def estimated_hours(cells: Sequence[Cell], settings: BenchmarkSettings, output: Path, workers: int) -> float:
    """The hours until the missing cells of a folder are computed.

    Args:
        cells: From `make_grid`.
        settings: Of all cells.
        output: The folder of the results; it need not be there yet.
        workers: Cells computed at a time.

    Returns:
        Hours, by the clock.
    """
    measured: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for found in read_cells(output / CELLS):
        seconds = sum(found["seconds"].values())
        measured[found["task"], found["protocol"], found["method"]].append(seconds)
    total = 0.0
    for cell in missing_cells(cells, output):
        known = measured.get((cell.task.name, cell.protocol.name, cell.recipe.name))
        total += mean(known) if known else _estimated_seconds(cell, settings)
    return total / workers / 3600


def _estimated_seconds(cell: Cell, settings: BenchmarkSettings) -> float:
    rows, tested, words = _sizes(cell.task, cell.protocol, cell.domain, settings.on, settings.test_size)
    new = rows * cell.recipe.policy.per_row if cell.recipe.augments else 0
    tokens = min(settings.max_length, _TOKENS_PER_WORD * words)
    writing = new * words * _WRITING.get(str(cell.recipe.source), 0.0)
    training = _training_seconds(cell, settings, rows, new, tokens)
    if cell.recipe.uses_teacher:
        training += _training_seconds(cell, settings.for_teacher(), rows, 0, tokens)
    return writing + (1 + settings.n_folds) * training + tested * tokens * _TESTING * _size(settings)


def _training_seconds(cell: Cell, settings: BenchmarkSettings, rows: int, new: int, tokens: float) -> float:
    if not settings.kind.trains_encoder:
        return (rows + new) * tokens * _TESTING * _size(settings)
    student = settings.student_settings(cell.protocol, cell.recipe, rows, new)
    return (student.updates or 0) * student.batch_size * tokens * _TRAINING * _size(settings)


def _size(settings: BenchmarkSettings) -> float:
    if not settings.kind.uses_encoder:
        return 0.0
    return 1.0 if settings.encoder is None or "minilm" in settings.encoder.lower() else _BERT_BASE


@lru_cache(maxsize=16)
def _sizes(
    source: TaskSource, protocol: Protocol, domain: str | None, on: str, test_size: int | None
) -> tuple[int, int, float]:
    """The training rows, the test rows, and the words of an average text or pair of texts."""
    task = source.load()
    parts = split(task, domain, on, test_size)
    pool = parts.pool
    step = max(1, len(pool) // _SAMPLE)  # some data are sorted
    texts = pool.texts[::step] + (pool.pairs or [])[::step]
    words = sum(len(text.split()) for text in texts) / len(pool.texts[::step])
    return len(draw(task, pool, protocol, seed=0)), sum(map(len, parts.tests.values())), words
