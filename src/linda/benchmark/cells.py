"""One task, one method, one seed: the unit of work, kept as one JSON file."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from linda.augmentation.labels import LabelName
from linda.benchmark.methods import Method, Models, NewRows, make_new_rows
from linda.benchmark.protocol import Protocol, draw, split
from linda.benchmark.tasks import Rows, Task, TaskSource
from linda.classifier import TextClassifier
from linda.errors import LindaError
from linda.files.textio import atomic_writer
from linda.interpolator import engine_for

MATCH = ("steps", "epochs")


@dataclass(frozen=True)
class Settings:
    """What all cells of a folder have in common. The defaults are the paper's, but for the encoder."""

    encoder: str | None = None
    learning_rate: float = 3e-5
    batch_size: int | None = None  # None: 8 with shots, 32 without
    epochs: int | None = None  # None: 30 with shots, 5 without
    match: str = "steps"  # every method gets vanilla's updates, `epochs` over the originals; epochs: over all its rows
    max_length: int = 256
    test_size: int | None = None
    on: str = "test"
    models: Models = field(default_factory=Models)

    def batch(self, protocol: Protocol) -> int:
        return self.batch_size or (8 if protocol.is_low_resource else 32)

    def rounds(self, protocol: Protocol) -> int:
        return self.epochs or (30 if protocol.is_low_resource else 5)

    def record(self, method: Method) -> dict[str, Any]:
        """What decides a cell's result, without the places of this machine."""
        shared = asdict(self) | {"encoder": _short(self.encoder) or "all-MiniLM-L6-v2"}
        del shared["models"]
        if self.models.use_linda(method):
            shared["linda_model"] = fingerprint(self.models.linda)
            shared["engine"] = engine_for(self.models.linda, self.models.engine)
        if method.augmenter == "ssmba":
            shared["masked_model"] = _short(self.models.masked)
        if method.augmenter == "backtranslation":
            shared["translation"] = [_short(self.models.there), _short(self.models.back)]
        return shared


@dataclass(frozen=True)
class Cell:
    task: TaskSource
    protocol: Protocol
    method: Method
    seed: int
    domain: str | None = None  # that training is from

    @property
    def file_name(self) -> str:
        parts = [self.task.name, self.domain, self.protocol.name, self.method.name, f"seed{self.seed}"]
        return ".".join(re.sub(r"[^\w=:.+-]+", "-", part) for part in parts if part) + ".json"


def run_cell(cell: Cell, settings: Settings) -> dict[str, Any]:
    """Draws rows, makes new ones, trains, and counts how many test rows are right."""
    started = time.perf_counter()
    task = cell.task.load()
    parts = split(task, cell.domain, settings.on, settings.test_size)
    rows = draw(task, parts.pool, cell.protocol, cell.seed)

    fit_teacher = partial(_fit_teacher, replace(cell, method=Method("vanilla")), settings)
    new = make_new_rows(cell.method, rows, task.classes, settings.models, settings.encoder, fit_teacher, seed=cell.seed)
    made = time.perf_counter()
    classifier = _fit(cell, settings, task.classes, rows, new)
    fitted = time.perf_counter()
    scores = {name: _accuracy(classifier, test) for name, test in parts.tests.items()}
    return {
        "task": task.name,
        "method": cell.method.name,
        "protocol": cell.protocol.name,
        "shots": cell.protocol.shots,
        "train_size": cell.protocol.train_size,
        "domain": cell.domain,
        "seed": cell.seed,
        "accuracy": scores[cell.domain] if cell.domain else next(iter(scores.values())),
        "scores": scores,
        "rows": len(rows),
        "new_rows": len(new),
        "test_rows": {name: len(test) for name, test in parts.tests.items()},
        "updates": classifier.updates,
        "policy": cell.method.record(),
        "settings": settings.record(cell.method),
        "notes": list(task.notes),
        "seconds": {
            "augment": round(made - started, 1),
            "train": round(fitted - made, 1),
            "test": round(time.perf_counter() - fitted, 1),
        },
    }


@lru_cache(maxsize=1)
def _fit_teacher(cell: Cell, settings: Settings) -> TextClassifier:
    """Trained on the originals alone. The methods of a seed come one after the other and share it."""
    task = cell.task.load()
    pool = split(task, cell.domain, settings.on, settings.test_size).pool
    return _fit(cell, settings, task.classes, draw(task, pool, cell.protocol, cell.seed), None)


def _fit(cell: Cell, settings: Settings, classes: list[LabelName], rows: Rows, new: NewRows | None) -> TextClassifier:
    """Originals and new rows (None: the originals alone), for the number of updates that is due."""
    new_texts = [] if new is None else new.texts
    batch = settings.batch(cell.protocol)
    counted = len(rows) if settings.match == "steps" else len(rows) + len(new_texts)
    classifier = TextClassifier(
        settings.encoder,
        learning_rate=settings.learning_rate,
        batch_size=batch,
        updates=settings.rounds(cell.protocol) * math.ceil(counted / batch),
        mixup=None if new is None else cell.method.mixup,
        max_length=settings.max_length,
    )
    code = {name: number for number, name in enumerate(classes)}
    labels = np.eye(len(classes))[[code[label] for label in rows.labels]]
    weights = [1.0] * len(rows)
    pairs = rows.pairs
    if new is not None:
        labels = np.concatenate([labels, new.labels])
        weights += [new.weight] * len(new)
        pairs = None if rows.pairs is None else rows.pairs + (new.pairs or [])
    return classifier.fit(rows.texts + new_texts, labels, pairs, weights, classes=classes, seed=cell.seed)


def _accuracy(classifier: TextClassifier, test: Rows) -> float:
    found = classifier.predict(test.texts, test.pairs)
    right = sum(label == truth for label, truth in zip(found, test.labels, strict=True))
    return round(100 * right / len(test), 3)


# --- files ----------------------------------------------------------------------------------------------------


def write_cell(folder: Path, cell: Cell, result: dict[str, Any]) -> None:
    with atomic_writer(folder / cell.file_name) as file:
        file.write(json.dumps(result, ensure_ascii=False, indent=1) + "\n")


def read_cells(folder: Path) -> Iterator[dict[str, Any]]:
    return map(_read, sorted(folder.glob("*.json")))


def read_cell(folder: Path, cell: Cell) -> dict[str, Any]:
    return _read(folder / cell.file_name)


def _read(path: Path) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LindaError(
            f"{path} is no result of linda bench ({error}); delete it, and it is computed again"
        ) from error
    return result


def is_done(folder: Path, cell: Cell, settings: Settings) -> bool:
    """Whether the cell's result is there; one that was computed otherwise is an error."""
    path = folder / cell.file_name
    if not path.exists():
        return False
    found = read_cell(folder, cell)
    known = found["settings"] | (found["policy"] or {})
    for name, value in (settings.record(cell.method) | (cell.method.record() or {})).items():
        if (there := known.get(name)) != value:
            raise LindaError(
                f"{path} was computed with {name} {there}, now {value} is asked for; "
                "use another --output, or delete the cell"
            )
    return True


@lru_cache(maxsize=1)
def fingerprint(model: str | None) -> str:
    """Tells one LINDA model from another: the beginning of a hash of its settings and weights."""
    from linda.checkpoint import CONFIG_FILE, WEIGHTS_FILE
    from linda.interpolator import EMBEDDED

    folder = EMBEDDED if model is None else Path(model)
    digest = sha256()
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        if (folder / name).is_file():
            digest.update((folder / name).read_bytes())
    return f"{'embedded' if model is None else folder.name} {digest.hexdigest()[:12]}"


def _short(name: str | None) -> str | None:
    return None if name is None else Path(name).name


def check_cells(task: Task, protocols: list[Protocol], settings: Settings, seeds: list[int]) -> None:
    """Draws once what every cell of a task will draw, so that an impossible one is known before hours of work."""
    for domain in task.training_domains:
        parts = split(task, domain, settings.on, settings.test_size)
        for protocol in protocols:
            for seed in seeds:
                draw(task, parts.pool, protocol, seed)
