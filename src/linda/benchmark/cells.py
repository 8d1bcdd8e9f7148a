"""One task, one method, one seed: the unit of work, stored as one JSON file."""

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
from linda.errors import LindaError, shortened
from linda.files.jsonfile import read_json_object
from linda.files.textio import atomic_writer

# Scores are percentages or mean losses. Larger ones, infinity and NaN are damage, and would break means and reports.
_LARGEST_SCORE = 1e15

# Length of a file name in bytes without its extension: file systems allow 255, and temporary files add more.
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
        """A unique file name: characters that are not allowed are percent-encoded."""
        protocol = self.protocol.name.replace(" ", "-")
        parts = [self.task.name, self.domain, protocol, self.recipe.name, f"seed{self.seed}"]
        quoted = (re.sub(r"[^\w=:.+-]", lambda found: quote(found[0], safe=""), part) for part in parts if part)
        name = ".".join(quoted)
        if len(name.encode()) > _LONGEST_NAME:
            name = f"{name.encode()[:_LONGEST_NAME].decode(errors='ignore')}~{sha256(name.encode()).hexdigest()[:12]}"
        return f"{name}.json"

    def record(self, settings: BenchmarkSettings) -> dict[str, Any]:
        """Return everything that is known before the cell is computed."""
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


# --- files ----------------------------------------------------------------------------------------------------


def write_cell(folder: Path, cell: Cell, result: dict[str, Any]) -> None:
    with atomic_writer(folder / cell.file_name) as file:
        file.write(json.dumps(result, ensure_ascii=False, indent=1) + "\n")


def read_cells(folder: Path) -> Iterator[dict[str, Any]]:
    return map(_read, sorted(folder.glob("*.json")))


def read_cell(folder: Path, cell: Cell) -> dict[str, Any]:
    return _read(folder / cell.file_name)


# Fields that a report needs.
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
    "updates": (int, type(None)),
    "source": (str,),
    "date": (str,),
    "machine": (str,),
    "notes": (list,),
    "seconds": (dict,),
}


def _read(path: Path) -> dict[str, Any]:
    try:
        return checked_cell(read_json_object(path))
    except LindaError as error:
        raise LindaError(f"{path} is not a result of linda bench ({error}); delete it to compute it again") from error


def checked_cell(values: dict[str, Any]) -> dict[str, Any]:
    """Check a cell from an untrusted file, and convert it to the current format."""
    for name, kinds in _FIELDS.items():
        if name not in values:
            raise LindaError(f"it has no {name}")
        value = values[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise LindaError(f"its {name} is {shortened(value)}")
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise LindaError("it contains a lone surrogate") from None
    cell = upgraded(values)
    for name in ("test_rows", "seconds"):
        _check(name, cell[name], all(number is None or _is_number(number) for number in cell[name].values()))
    for scores in cell["scores"].values():
        _check("scores", scores, all(_is_number(score) and abs(score) <= _LARGEST_SCORE for score in scores.values()))
    imbalance, noise = cell["imbalance"], cell["label_noise"]
    _check(
        "imbalance", imbalance, imbalance is None or (isinstance(imbalance, list) and all(map(_is_number, imbalance)))
    )
    _check("label_noise", noise, _is_number(noise))
    if not all(isinstance(note, str) for note in cell["notes"]) or "on" not in cell["settings"]:
        raise LindaError("its notes or settings are damaged")
    if cell["domain"] is None and not cell["scores"].keys() <= cell["test_rows"].keys():
        raise LindaError("its scores and test_rows are not of the same sets")
    return cell


def _check(name: str, value: Any, is_right: bool) -> None:
    if not is_right:
        raise LindaError(f"its {name} cannot be {shortened(value)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def upgraded(cell: dict[str, Any]) -> dict[str, Any]:
    """Convert a cell of an earlier version: accuracy only, of a fine-tuned student, or another name of the budget."""
    scores = {test: found if isinstance(found, dict) else {"accuracy": found} for test, found in cell["scores"].items()}
    settings = {"student": "finetune", "folds": 0, **cell["settings"]}
    if "match" in settings:
        match = settings.pop("match")
        settings["budget"] = "updates" if match == "steps" else match
    return {"imbalance": None, "label_noise": 0.0, **cell, "scores": scores, "settings": settings}


def check_comparable(cells: Iterable[dict[str, Any]]) -> None:
    """Raise a LindaError if cells of one task differ in more than the method, so that they cannot be compared.

    Batch size and epochs may differ between protocols. All cells of a folder are tested on the same part (`on`).
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
                        f"{place} has cells with {name} {there}, but others with {value} are requested or present; "
                        "use another --output, or delete the cells that you do not want"
                    )
