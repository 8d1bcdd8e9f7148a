"""One task, one method, one seed: the unit of work, kept as one JSON file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from linda import __version__
from linda.benchmark.protocol import Protocol
from linda.benchmark.recipes import Recipe
from linda.benchmark.settings import BenchmarkSettings
from linda.benchmark.tasks import TaskSource
from linda.errors import LindaError
from linda.files.textio import atomic_writer

# Length of a file name in bytes before its ending: file systems allow 255, and a part file has a longer ending.
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Cell:
    task: TaskSource
    protocol: Protocol
    recipe: Recipe
    seed: int
    domain: str | None = None  # of the training rows

    @property
    def file_name(self) -> str:
        """Different for different cells: characters that a file name cannot have are percent-encoded."""
        protocol = self.protocol.name.replace(" ", "-")
        parts = [self.task.name, self.domain, protocol, self.recipe.name, f"seed{self.seed}"]
        name = ".".join(re.sub(r"[^\w=:.+-]", _quoted, part) for part in parts if part)
        if len(name.encode()) > _LONGEST_NAME:
            name = f"{name.encode()[:_LONGEST_NAME].decode(errors='ignore')}~{sha256(name.encode()).hexdigest()[:12]}"
        return f"{name}.json"

    def record(self, settings: BenchmarkSettings) -> dict[str, Any]:
        """Everything that is known before anything is computed."""
        task = self.task.load()
        return {
            "task": task.name,
            "method": self.recipe.name,
            "protocol": self.protocol.name,
            "shots": self.protocol.shots,
            "train_size": self.protocol.train_size,
            "imbalance": self.protocol.imbalance,
            "label_noise": self.protocol.label_noise,
            "rare_classes": self.protocol.rare_classes(task),
            "domain": self.domain,
            "seed": self.seed,
            "policy": self.recipe.record(),
            "settings": {**settings.record(self.recipe, self.protocol), "data": task.fingerprint},
            "source": task.source,
            "notes": list(task.notes),
            "version": __version__,
        }


def _quoted(character: re.Match[str]) -> str:
    return quote(character[0], safe="")


# --- files ----------------------------------------------------------------------------------------------------


def write_cell(folder: Path, cell: Cell, result: dict[str, Any]) -> None:
    with atomic_writer(folder / cell.file_name) as file:
        file.write(json.dumps(result, ensure_ascii=False, indent=1) + "\n")


def read_cells(folder: Path) -> Iterator[dict[str, Any]]:
    return map(_read, sorted(folder.glob("*.json")))


def read_cell(folder: Path, cell: Cell) -> dict[str, Any]:
    return _read(folder / cell.file_name)


# Without these no report can be made.
_FIELDS = ("task", "protocol", "method", "seed", "settings", "policy", "scores")


def _read(path: Path) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(result, dict):
            raise ValueError("it is not an object")
        if missing := [name for name in _FIELDS if name not in result]:
            raise ValueError(f"it has no {missing[0]}")
    except ValueError as error:
        raise LindaError(f"{path} is no result of linda bench ({error}); delete it to compute it again") from error
    return upgraded(result)


def upgraded(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell of an earlier version in today's form: it had the accuracy alone, of a fine-tuned student."""
    scores = {test: found if isinstance(found, dict) else {"accuracy": found} for test, found in cell["scores"].items()}
    settings = {"student": "finetune", "folds": 0, **cell["settings"]}
    return {"imbalance": None, "label_noise": 0.0, **cell, "scores": scores, "settings": settings}


def check_comparable(cells: Iterable[dict[str, Any]]) -> None:
    """Raises a LindaError if cells of one task differ in more than the method: their difference would say nothing.

    Batch size and epochs may differ between protocols. All cells of a folder are tested on the same part.
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
                        f"{place} has cells with {name} {there}, and others with {value} are requested or there too; "
                        "use another --output, or delete the cells that you do not want"
                    )
