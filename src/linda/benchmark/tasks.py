"""Labelled texts to train and test on: from a folder of tasks, from the hub, or from the user's own files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from linda.benchmark.run_cache import run_cache
from linda.errors import LindaError
from linda.evaluation.metrics import PRESENT
from linda.planning.examples import RECORD, ListTable, read_examples, read_unlabelled
from linda.planning.labels import LabelName, shown


@dataclass(frozen=True)
class LabelledRows:
    """Labelled texts as parallel columns.

    A label is a class; or, if rows have several, a tuple with one value from 0 to 1 per class.
    """

    texts: list[str]
    pairs: list[str] | None
    labels: list[Any]
    domains: list[str] | None

    @property
    def is_multi_label(self) -> bool:
        return bool(self.labels) and isinstance(self.labels[0], tuple)

    @property
    def kinds(self) -> list[Any]:
        """What two rows must share to have the same label: the class, or the set of classes."""
        if not self.is_multi_label:
            return self.labels
        return [tuple(value >= PRESENT for value in label) for label in self.labels]

    def targets(self, classes: Sequence[LabelName]) -> np.ndarray:
        """Return the labels (N, C), with columns in the order of the classes."""
        if self.is_multi_label:
            return np.array(self.labels, dtype=np.float64)
        return np.eye(len(classes))[class_codes(self.labels, classes)]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: Sequence[int]) -> LabelledRows:
        def part(column: list[Any] | None) -> Any:
            return None if column is None else [column[row] for row in rows]

        return LabelledRows(part(self.texts), part(self.pairs), part(self.labels), part(self.domains))


def class_codes(labels: Sequence[LabelName], classes: Sequence[LabelName]) -> np.ndarray:
    """Return the index (N,) of each label among the classes."""
    code = {name: number for number, name in enumerate(classes)}
    return np.array([code[label] for label in labels], dtype=np.int64)


@dataclass(frozen=True)
class BenchmarkTask:
    """Training rows and test sets; several test sets are reported separately (MNLI matched and mismatched)."""

    name: str
    train: LabelledRows
    tests: dict[str, LabelledRows]
    source: str = "own files"  # or a folder of tasks, whole or with a sample to train on, or the hub
    notes: tuple[str, ...] = ()  # remarks for readers of the table
    small_classes: bool = False  # use all rows of classes with fewer than k rows
    label_names: tuple[LabelName, ...] | None = None  # the classes of rows that have several labels

    @property
    def is_multi_label(self) -> bool:
        return self.label_names is not None

    @property
    def classes(self) -> list[LabelName]:
        return sorted(set(self.train.labels)) if self.label_names is None else list(self.label_names)

    @property
    def domains(self) -> list[str]:
        """Empty if the task has no domains."""
        return sorted(set(self.train.domains or ()))

    @property
    def training_domains(self) -> list[str | None]:
        """Each domain is trained on separately; None stands for all rows."""
        return [*self.domains] or [None]

    @cached_property
    def fingerprint(self) -> str:
        """Return a hash of all rows, to detect other data under the same name."""
        rows = {"train": asdict(self.train), "tests": {name: asdict(test) for name, test in self.tests.items()}}
        return sha256(json.dumps(rows).encode()).hexdigest()[:12]


OWN_FILES = BenchmarkTask.source
_SEVERAL = "rows have several labels: every metric is a mean over the classes, and F1 is at a probability of 0.5"
SAMPLE = "a folder with a sample of the training rows"


@dataclass(frozen=True)
class _Hub:
    """Where a task is on the hub. Splits are named as in the folders."""

    path: str
    config: str | None
    text: str
    label: str
    pair: str | None = None
    names: tuple[str, ...] | None = None  # of the classes, if the hub's differ from the folder's
    revision: str | None = None


@dataclass(frozen=True)
class _Known:
    folder: str
    tests: Mapping[str, str]  # name in the report: split
    label: str = "label"
    pair: str | None = None
    domain: str | None = None
    hub: _Hub | None = None
    small_classes: bool = False


def _glue(config: str, text: str, pair: str | None = None) -> _Hub:
    return _Hub("nyu-mll/glue", config, text, "label", pair)


def _trec(label: str) -> _Hub:
    return _Hub("CogComp/trec", "default", "text", label, revision="refs/convert/parquet")


_IMDB = _Hub("stanfordnlp/imdb", "plain_text", "text", "label", names=("negative", "positive"))

_TASKS = {
    "trec-coarse": _Known("trec", {"test": "test"}, label="label_coarse", hub=_trec("coarse_label")),
    # Two of the fifty fine classes have four questions.
    "trec-fine": _Known("trec", {"test": "test"}, label="label_fine", hub=_trec("fine_label"), small_classes=True),
    "sst2": _Known("sst2", {"test": "validation"}, hub=_glue("sst2", "sentence")),
    "imdb": _Known("imdb", {"test": "test"}, hub=_IMDB),
    "rte": _Known("rte", {"test": "validation"}, pair="text_pair", hub=_glue("rte", "sentence1", "sentence2")),
    "qnli": _Known("qnli", {"test": "validation"}, pair="text_pair", hub=_glue("qnli", "question", "sentence")),
    "mnli": _Known(
        "mnli",
        {"matched": "validation_matched", "mismatched": "validation_mismatched"},
        pair="text_pair",
        hub=_glue("mnli", "premise", "hypothesis"),
    ),
    "womens-clothing": _Known("womens_clothing_reviews", {"test": "test"}, domain="domain"),
    "amazon-fashion-garden": _Known("amazon_fashion_garden", {"test": "test"}, domain="domain"),
    "yelp-cuisine": _Known("yelp_cuisine_polarity", {"test": "test"}, domain="domain"),
    "yelp-categories": _Known("yelp_categories", {"test": "test"}, domain="domain"),
}

# Each part is a domain of the whole.
_COMPOSED = {"movies": ("sst2", "imdb")}


def known_tasks(data: str | Path | None = None) -> list[str]:
    """Return the built-in tasks, and further folders in `data`."""
    known = [*_TASKS, *_COMPOSED]
    if data is None or not Path(data).is_dir():
        return known
    taken = {task.folder for task in _TASKS.values()}
    return known + sorted(
        folder.parent.name for folder in Path(data).glob("*/train.jsonl*") if folder.parent.name not in taken
    )


@dataclass(frozen=True)
class NamedTask:
    """A task by its name, from a folder (NAME/SPLIT.jsonl.gz) or, without one, from the hub."""

    name: str
    data: Path | None = None
    small_classes: bool = False

    def load(self) -> BenchmarkTask:
        return _load_named(self.name, self.data, self.small_classes)


@dataclass(frozen=True)
class _Columns:
    """The columns of a file, and whether the label column holds several labels per row."""

    text: str
    label: str
    pair: str | None
    domain: str | None
    multi_label: bool = False


@dataclass(frozen=True)
class OwnTask:
    """The user's own files, in any format that `linda augment` reads."""

    name: str
    train: Path
    test: Path
    text: str = "text"
    label: str = "label"
    pair: str | None = None
    domain: str | None = None
    small_classes: bool = False
    multi_label: bool = False

    def load(self) -> BenchmarkTask:
        return _load_own(self)


TaskSource = NamedTask | OwnTask


@run_cache(maxsize=2)
def _load_named(name: str, data: Path | None, small_classes: bool = False) -> BenchmarkTask:
    if small_classes:
        return replace(_load_named(name, data), small_classes=True)
    if name in _COMPOSED:
        return _composed(name, data)
    if data is not None and not data.is_dir():
        raise LindaError(f"there is no folder {str(data)!r}; give a folder of tasks")
    known = _TASKS.get(name)
    if known is None and data is not None and (data / name).is_dir():
        known = _found(data / name)
    if known is None:
        raise LindaError(f"unknown task {name!r}; choose from {', '.join(known_tasks(data))}")
    if data is not None:
        return _from_folder(name, data / known.folder, known)
    return _from_hub(name, known)


@run_cache(maxsize=2)
def _load_own(own: OwnTask) -> BenchmarkTask:
    columns = _Columns(own.text, own.label, own.pair, own.domain, own.multi_label)
    train, names = _read_file(own.train, columns)
    if not own.multi_label:
        test, _ = _read_file(own.test, columns)
        return _checked(BenchmarkTask(own.name, train, {"test": test}, small_classes=own.small_classes))
    if not any(len(set(values)) > 1 for values in zip(*train.kinds, strict=True)):
        raise LindaError(f"{own.train}: all rows have the same labels; give rows with and without a class")
    test, _ = _read_file(own.test, columns, names)
    return BenchmarkTask(own.name, train, {"test": test}, notes=(_SEVERAL,), label_names=names)


def _composed(name: str, data: Path | None) -> BenchmarkTask:
    parts = {part: _load_named(part, data) for part in _COMPOSED[name]}
    train = _joined({part: task.train for part, task in parts.items()})
    test = _joined({part: task.tests["test"] for part, task in parts.items()})
    sources = {task.source for task in parts.values()}
    notes = tuple(note for task in parts.values() for note in task.notes)
    return _checked(BenchmarkTask(name, train, {"test": test}, SAMPLE if SAMPLE in sources else sources.pop(), notes))


def _joined(parts: Mapping[str, LabelledRows]) -> LabelledRows:
    return LabelledRows(
        texts=[text for rows in parts.values() for text in rows.texts],
        pairs=None,
        labels=[label for rows in parts.values() for label in rows.labels],
        domains=[name for name, rows in parts.items() for _ in range(len(rows))],
    )


def _found(folder: Path) -> _Known:
    """Describe a task in a folder: its fields show whether it has pairs and domains."""
    from linda.files.tables import find_format, read_table

    train = _split_file(folder, "train")
    fields = read_table(train, find_format(train), [])[0].names if train else []
    pair, domain = (field if field in fields else None for field in ("text_pair", "domain"))
    test = "test" if _split_file(folder, "test") else "validation"
    return _Known(folder.name, {"test": test}, pair=pair, domain=domain)


def _from_folder(name: str, folder: Path, known: _Known) -> BenchmarkTask:
    notes: list[str] = []

    def read(split: str) -> LabelledRows:
        file = _split_file(folder, split)
        if file is None:
            raise LindaError(f"the task {name!r} needs {folder / split}.jsonl.gz, which does not exist")
        found = file.name.split(".")[0]
        if found != split:
            notes.append(f"{name}: {split} is the sample {found}")
        return _read_file(file, _Columns("text", known.label, known.pair, known.domain))[0]

    train = read("train")
    source = SAMPLE if notes else "a folder of tasks"
    tests = {test: read(split) for test, split in known.tests.items()}
    return _checked(BenchmarkTask(name, train, tests, source, tuple(notes), known.small_classes))


def _split_file(folder: Path, split: str) -> Path | None:
    """Return the file of the whole split or, if it does not exist, of a sample."""
    patterns = (f"{name}.{end}" for name in (split, f"{split}_sample*") for end in ("jsonl.gz", "jsonl"))
    return next((file for pattern in patterns for file in sorted(folder.glob(pattern))), None)


def _from_hub(name: str, known: _Known) -> BenchmarkTask:
    hub = known.hub
    if hub is None:
        raise LindaError(f"the task {name!r} is not on the hub; give the folder that contains it (--data DIR)")
    train, tests = (
        _hub_rows(name, hub, "train"),
        {test: _hub_rows(name, hub, split) for test, split in known.tests.items()},
    )
    return _checked(BenchmarkTask(name, train, tests, "the hub", small_classes=known.small_classes))


def _hub_rows(name: str, hub: _Hub, split: str) -> LabelledRows:
    import datasets

    try:
        rows = datasets.load_dataset(hub.path, hub.config, split=split, revision=hub.revision)
    except Exception as error:  # the hub, the network and the cache raise various exceptions
        raise LindaError(
            f"the task {name!r} cannot be downloaded from the hub ({type(error).__name__}); give a folder (--data DIR)"
        ) from error
    names = hub.names or rows.features[hub.label].names
    pairs = None if hub.pair is None else list(rows[hub.pair])
    return LabelledRows(list(rows[hub.text]), pairs, [names[code] for code in rows[hub.label]], None)


def _read_file(
    path: Path, columns: _Columns, classes: tuple[LabelName, ...] | None = None
) -> tuple[LabelledRows, tuple[LabelName, ...]]:
    """Return the rows of a file, and its classes. classes: all classes, if they are known."""
    from linda.files.tables import column_values, find_format, read_table

    text, label, pair, domain = columns.text, columns.label, columns.pair, columns.domain
    schema, batches = read_table(path, find_format(path), [name for name in (text, pair, domain) if name is not None])
    found: dict[str, list[Any]] = {name: [] for name in schema.names}
    for batch in batches:
        for name in schema.names:
            found[name] += column_values(batch, name)
    # Columns that augmentation writes are ignored: a file that was augmented before can be used too.
    used = {name: there for name, there in found.items() if name in (text, label, pair) or name not in RECORD}
    try:
        labels = read_examples(
            ListTable(used), text, label, pair, classes=classes, multi_label=columns.multi_label
        ).labels
        if domain is not None and domain not in found:
            raise LindaError(f"there is no column {domain!r}; the data has {shown(schema.names)}")
        if domain is not None:
            _check_domains(found[domain], domain)
    except LindaError as error:
        raise LindaError(f"{path}: {error}") from error
    if labels.soft is not None:
        raise LindaError(f"{path}: the labels are distributions; a benchmark needs one class per row")
    values: list[Any]
    if columns.multi_label:
        values = list(map(tuple, labels.distributions(np.arange(len(labels.codes))).tolist()))
    else:
        values = [labels.names[code] for code in labels.codes]
    domains = None if domain is None else [str(value) for value in found[domain]]
    return LabelledRows(found[text], None if pair is None else found[pair], values, domains), labels.names


@run_cache(maxsize=2)
def unlabelled_texts(file: str, text: str, label: str) -> tuple[str, ...]:
    """Return the texts of a file without labels, read as `linda augment --unlabelled` does, once per process."""
    return tuple(read_unlabelled(file, text, label))


def _check_domains(values: list[Any], column: str) -> None:
    for number, value in enumerate(values):
        if value is None or value == "":
            raise LindaError(f"row {number} has no {column!r}; every row needs a domain")


def _checked(task: BenchmarkTask) -> BenchmarkTask:
    classes = set(task.train.labels)
    if len(classes) < 2:
        raise LindaError(
            f"{task.name}: all training rows have the label {task.classes[0]!r}; give at least two classes"
        )
    for rows in task.tests.values():
        for number, label in enumerate(rows.labels):
            if label not in classes:
                raise LindaError(
                    f"{task.name}: row {number} of the test set has the label {label!r}, "
                    f"which the training rows do not have (they have {shown(task.classes)})"
                )
    return task
