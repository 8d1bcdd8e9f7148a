"""One task, one method, one seed: the unit of work, kept as one JSON file."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import lru_cache, partial
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from linda import __version__
from linda.augmentation.labels import LabelName
from linda.benchmark.machine import describe_machine
from linda.benchmark.methods import Method, Models, NewRows, make_new_rows
from linda.benchmark.protocol import ON, Protocol, draw, split
from linda.benchmark.tasks import Rows, Task, TaskSource
from linda.classifier import TextClassifier
from linda.classifier.encoder import DEFAULT_ENCODER, is_default_encoder
from linda.errors import LindaError, shortened
from linda.files.jsonfile import read_json_object
from linda.files.textio import atomic_writer
from linda.interpolation import engine_for
from linda.model.checkpoint import CONFIG_FILE, EMBEDDED

MATCH = ("steps", "epochs")

# Of a file's name, in bytes, before its ending: file systems allow 255 for all of it, and a part file has more.
_LONGEST_NAME = 200


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

    def __post_init__(self) -> None:
        for name, known in (("match", MATCH), ("on", ON)):
            if getattr(self, name) not in known:
                raise LindaError(f"{name} is {getattr(self, name)!r}; give {' or '.join(known)}")

    def batch(self, protocol: Protocol) -> int:
        return self.batch_size or (8 if protocol.is_low_resource else 32)

    def rounds(self, protocol: Protocol) -> int:
        return self.epochs or (30 if protocol.is_low_resource else 5)

    def record(self, method: Method, protocol: Protocol) -> dict[str, Any]:
        """What decides a cell's result, without the places of this machine."""
        shared = asdict(self) | {
            "encoder": DEFAULT_ENCODER if is_default_encoder(self.encoder) else model_name(self.encoder),
            "batch_size": self.batch(protocol),
            "epochs": self.rounds(protocol),
        }
        del shared["models"]
        if self.models.use_linda(method):
            shared["linda_model"] = model_name(self.models.linda or str(EMBEDDED))
            shared["engine"] = engine_for(self.models.linda, self.models.engine)
        if method.augmenter == "ssmba":
            shared["masked_model"] = model_name(self.models.masked)
        if method.augmenter == "backtranslation":
            shared["translation"] = [model_name(self.models.there), model_name(self.models.back)]
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
        """Different for different cells: what no file name may have is written as in an address."""
        protocol = self.protocol.name.replace(" ", "-")
        parts = [self.task.name, self.domain, protocol, self.method.name, f"seed{self.seed}"]
        name = ".".join(re.sub(r"[^\w=:.+-]", _quoted, part) for part in parts if part)
        if len(name.encode()) > _LONGEST_NAME:
            name = f"{name.encode()[:_LONGEST_NAME].decode(errors='ignore')}~{sha256(name.encode()).hexdigest()[:12]}"
        return f"{name}.json"

    def record(self, settings: Settings) -> dict[str, Any]:
        """What is known before anything is computed."""
        task = self.task.load()
        return {
            "task": task.name,
            "method": self.method.name,
            "protocol": self.protocol.name,
            "shots": self.protocol.shots,
            "train_size": self.protocol.train_size,
            "domain": self.domain,
            "seed": self.seed,
            "policy": self.method.record(),
            "settings": {**settings.record(self.method, self.protocol), "data": task.fingerprint},
            "source": task.source,
            "notes": list(task.notes),
            "version": __version__,
        }


def _quoted(character: re.Match[str]) -> str:
    return quote(character[0], safe="")


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
        **cell.record(settings),
        "accuracy": scores[cell.domain] if cell.domain else next(iter(scores.values())),
        "scores": scores,
        "rows": len(rows),
        "new_rows": len(new),
        "test_rows": {name: len(test) for name, test in parts.tests.items()},
        "updates": classifier.updates,
        "date": date.today().isoformat(),
        "machine": describe_machine(),
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
        mixup=cell.method.mixup,
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


# What a report cannot be made without.
_FIELDS: dict[str, tuple[type, ...]] = {
    "task": (str,),
    "protocol": (str,),
    "method": (str,),
    "seed": (int,),
    "settings": (dict,),
    "policy": (dict, type(None)),
    "scores": (dict,),
    "test_rows": (dict,),
    "domain": (str, type(None)),
    "shots": (int, type(None)),
    "train_size": (int, type(None)),
    "rows": (int,),
    "new_rows": (int,),
    "updates": (int,),
    "source": (str,),
    "date": (str,),
    "machine": (str,),
    "notes": (list,),
    "seconds": (dict,),
}


def _read(path: Path) -> dict[str, Any]:
    try:
        result = read_json_object(path)
        for name, kinds in _FIELDS.items():
            if name not in result:
                raise LindaError(f"it has no {name}")
            value = result[name]
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise LindaError(f"its {name} is {shortened(value)}")
        for name in ("scores", "test_rows", "seconds"):
            if not all(isinstance(number, int | float) for number in result[name].values()):
                raise LindaError(f"its {name} are {shortened(result[name])}")
        if not all(isinstance(note, str) for note in result["notes"]) or "on" not in result["settings"]:
            raise LindaError("its notes or settings are damaged")
        if result["domain"] is None and not result["scores"].keys() <= result["test_rows"].keys():
            raise LindaError("its scores and test_rows are not of the same sets")
    except LindaError as error:
        raise LindaError(
            f"{path} is no result of linda bench ({error}); delete it, and it is computed again"
        ) from error
    return result


def check_comparable(cells: Iterable[dict[str, Any]]) -> None:
    """Cells of one task must differ in the method alone, or their differences say nothing of it.

    Few rows train in other batches than many; and a search and a result never stand in one folder, whatever the task.
    """
    known: dict[tuple[str, ...], Any] = {}
    for cell in cells:
        for owner, settings in (("", cell["settings"]), (cell["method"], cell["policy"] or {})):
            for name, value in settings.items():
                if name == "on":
                    place = "the folder"
                elif name in ("batch_size", "epochs"):
                    place = f"{cell['task']} ({cell['protocol']})"
                else:
                    place = cell["task"]
                there = known.setdefault((place, owner, name), value)
                if there != value:
                    raise LindaError(
                        f"{place} has cells with {name} {there}, and others with {value} "
                        "are asked for or there too; use another --output, or delete those that are not wanted"
                    )


def model_name(model: str | None) -> str | None:
    """A hub name as it is; a folder by its own name and the beginning of a hash of what it holds."""
    if model is None or not Path(model).is_dir():
        return model
    return f"{Path(model).resolve().name} {_hash(Path(model))}"


@lru_cache(maxsize=8)
def _hash(folder: Path) -> str:
    """Of a model's settings and weights."""
    digest = sha256()
    for file in sorted([folder / CONFIG_FILE, *folder.glob("*.safetensors"), *folder.glob("*.bin")]):
        if file.is_file():
            with file.open("rb") as opened:
                file_digest(opened, lambda: digest)
    return digest.hexdigest()[:12]


def check_cells(
    task: Task, protocols: list[Protocol], methods: Sequence[Method], settings: Settings, seeds: Sequence[int]
) -> None:
    """Draws once what every cell of a task will draw, so that an impossible one is known before hours of work."""
    pairing = next((m for m in methods if m.augmenter == "linda" and m.policy.partners == "same"), None)
    for domain in task.training_domains:
        parts = split(task, domain, settings.on, settings.test_size)
        for protocol in protocols:
            for seed in seeds:
                drawn = draw(task, parts.pool, protocol, seed)
                if pairing is not None and len(set(drawn.labels)) == len(drawn):
                    raise LindaError(
                        f"{task.name} ({protocol.name}): no two of the rows drawn have the same label, and "
                        f"{pairing.name} mixes such rows; ask for more, or for {pairing.name}+partners=any"
                    )
