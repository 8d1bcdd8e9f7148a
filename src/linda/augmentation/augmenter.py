"""Plan → texts → gates → labels → rows, for lists, pandas and `datasets`. (Files: `linda.augmentation.file_run`.)

bigger = linda.augment(frame, text="text", label="label", per_row=2)
"""

import math
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from linda import augmenters
from linda.augmentation.examples import Examples, Table, read_examples
from linda.augmentation.frames import as_table, is_a, joined, joined_lists, known_classes
from linda.augmentation.gates import Gates, Seen
from linda.augmentation.generation import Chunk, Generator, LabelRule, NewRow, Tally
from linda.augmentation.labels import LabelName
from linda.augmentation.plan import PARTNERS, NoPartnerError, Plan, make_plan
from linda.augmentation.records import new_columns
from linda.augmentation.summary import Summary
from linda.augmentation.teacher import fit_teacher, load_teacher
from linda.augmentation.writing import WriteAll, Writer, write_here, write_in_processes
from linda.augmenters import Augmenter as Method
from linda.errors import MOST_SEED, LindaError, checked_integer

if TYPE_CHECKING:
    from linda.interpolation import Interpolator


def augment(data: Any, text: str = "text", label: str = "label", *, plan: Plan | None = None, **settings: Any) -> Any:
    """The originals and new rows between them, in the form that the data came in.

    data: a pandas DataFrame, a `datasets.Dataset`, a `DatasetDict` (only its split "train" is augmented), or parallel
        lists as {"text": [...], "label": [...]}, which give a list of rows.
    plan: who meets whom, if it is not to be drawn.
    settings: any other field of `Augmenter`.
    """
    return Augmenter(text, label, **settings).augment(data, plan)


@dataclass(frozen=True)
class Augmenter:
    """How rows are made, for repeated use: the model is loaded once.

        augmenter = Augmenter(per_row=2, seed=7)
        bigger = augmenter.augment(frame)
        dataset.map(augmenter, batched=True, with_indices=True)

    In `datasets.map` a row's partners are the other rows of its batch.
    """

    text: str = "text"
    label: str = "label"
    pair: str | None = None  # the second text column of a pair task
    # The plan: how many new rows, with which partners, at which ratios.
    per_row: int = 1
    total: int | None = None
    partners: str = "same"  # any, same, different, stratified, nearest
    ratio: str = "uniform"  # uniform, beta:0.4, 0.5, 0.2-0.8
    seed: int = 0
    # The texts: LINDA's model and how it mixes, or another method.
    method: str | Method = "linda"
    model: "str | Path | Interpolator | None" = None  # of a method that has one; None is the embedded one
    engine: str = "auto"  # what computes a LINDA model that is given by name: auto, int8 or torch
    translate: tuple[str, str] | None = None  # the models of back-translation: there, and back
    raw_ratio: bool = False  # mix by α itself, uncalibrated, as the paper does
    # The labels.
    labels: str = "interpolated"  # interpolated, sharpened, predicted, measured, hard
    temperature: float = 0.5  # of sharpened labels
    teacher: Any = None  # of predicted labels: a folder or anything with predict_proba; None is fine-tuned first
    encoder: str | Path | None = None  # that the teacher is fine-tuned from, and that sees which rows are nearest
    classes: Sequence[LabelName] | None = None  # the label set, where the data may not show all of it
    weight: float = 1.0  # of a new row in training, beside 1 for an original; another than 1 is a column
    # What is kept.
    gates: Gates = field(default_factory=Gates)
    retries: int = 2  # how often a text that a gate stops is written again, by sampling
    skip_empty: bool = False  # leave out rows without text
    only_new: bool = False  # without the originals
    # How it runs. Nothing here changes a row.
    batch_size: int = 128
    workers: int = 1
    progress: bool = False

    def __post_init__(self) -> None:
        LabelRule(self.labels, self.temperature)  # a wrong mode or temperature is told at once
        if self.partners not in PARTNERS:
            raise LindaError(f"partners are {', '.join(PARTNERS)}; got {self.partners!r}")
        if not 0 < self.weight < math.inf:
            raise LindaError(f"the weight of new rows is {self.weight:g}; it must be above 0")
        if (self.method == "backtranslation") != (self.translate is not None):
            raise LindaError(
                "backtranslation needs two translation models, there and back (translate=…, --translate THERE BACK), "
                "and no other method has them"
            )
        for name, least, most in (("batch_size", 1, 10**6), ("workers", 1, 256), ("retries", 0, 1000)):
            checked_integer(getattr(self, name), name, least, most)
        # A run is written down as JSON, which knows neither numpy's numbers nor ranges.
        object.__setattr__(self, "seed", checked_integer(self.seed, "seed", 0, MOST_SEED))
        if self.classes is not None:
            plain = [name.item() if isinstance(name, np.generic) else name for name in self.classes]
            object.__setattr__(self, "classes", plain)

    def augment(self, data: Any, plan: Plan | None = None) -> Any:
        """The originals and new rows, as `linda.augment` says."""
        if is_a(data, "datasets", "DatasetDict"):
            if "train" not in data:
                raise LindaError(f'the DatasetDict has no split "train", only {", ".join(data)}; give one Dataset')
            return type(data)({**data, "train": self.augment(data["train"], plan)})
        examples = self.examples(as_table(data), known_classes(data, self.label))
        for note in self.notes(examples, plan):
            warnings.warn(note, stacklevel=2)
        begun = time.monotonic()
        new, tally = self._new_columns(examples, self.plan(examples) if plan is None else plan)
        if self.progress:
            print(Summary(examples, tally, time.monotonic() - begun, self.engine_name), file=sys.stderr)
        return joined(data, examples, new, self.only_new)

    def __call__(self, batch: dict[str, list[Any]], indices: list[int] | None = None) -> dict[str, list[Any]]:
        """A batch of `datasets.map(batched=True)`: parallel lists in, longer ones out.

        With `with_indices=True` every batch has ratios of its own, and parents are numbered over the whole data set.
        """
        if self.total is not None:
            raise LindaError("total counts the rows of a whole table; a batch knows per_row only")
        batch = dict(batch)  # the batch of `datasets` reads its columns late, and is no plain dict
        examples = self.examples(as_table(batch))
        first = indices[0] if indices else 0
        try:
            plan = self.plan(examples, first=first * self.per_row)
        except NoPartnerError:  # the last batch of a data set may be a single row, with none to mix
            plan = Plan.of([])
        new, _ = self._new_columns(examples, plan)
        for parent in ("parent_a", "parent_b"):
            new[parent] = [None if row is None else row + first for row in new[parent]]
        return new if self.only_new else joined_lists(batch, examples, new)

    # --- the steps, one by one: files take them too ---------------------------------------------------------------

    def examples(self, table: Table, classes: Sequence[LabelName] | None = None) -> Examples:
        """The table, every row of it checked."""
        if self.weight != 1 and "weight" in table.columns:
            raise LindaError("the data has a column 'weight' already, which the new rows need; drop or rename it")
        classes = classes if self.classes is None else self.classes
        return read_examples(table, self.text, self.label, self.pair, skip_empty=self.skip_empty, classes=classes)

    def notes(self, examples: Examples, plan: Plan | None) -> Iterator[str]:
        """What the user should know of these rows before new ones are made. plan: if it was given, not drawn."""
        yield from examples.notes
        counts = examples.labels.counts().values()
        alone = sum(count == 1 for count in counts)
        some_meet = any(count > 1 for count in counts)  # where none do, no plan can be made, and that is told
        if alone and some_meet and plan is None and self.mixes and self.partners == "same":
            yield f"{alone:,} rows are alone in their label and get no new row; --partners any mixes them with others"

    def plan(self, examples: Examples, first: int = 0, neighbours: np.ndarray | None = None) -> Plan:
        """neighbours: of partners `nearest`, if they are known already."""
        return make_plan(
            examples.labels.codes,
            per_row=self.per_row,
            total=self.total,
            partners=self.partners if self.mixes else None,
            ratio=self.ratio,
            seed=self.seed,
            first=first,
            neighbours=self.find_neighbours(examples) if neighbours is None else neighbours,
        )

    def find_neighbours(self, examples: Examples) -> np.ndarray | None:
        """None where partners are not the nearest, or a method has none."""
        if self.partners != "nearest" or not self.mixes:
            return None
        from linda.augmentation.neighbours import nearest_rows

        return nearest_rows(examples, self.encoder, progress=self.progress)

    def find_teacher(self, examples: Examples) -> Any:
        """None where labels are not predicted."""
        if self.labels != "predicted":
            return None
        if self.teacher is None:
            return fit_teacher(examples, self.encoder, seed=self.seed, progress=self.progress)
        is_folder = isinstance(self.teacher, str | Path)
        return load_teacher(self.teacher, examples.labels.names) if is_folder else self.teacher

    def chunks(
        self, examples: Examples, plan: Plan, teacher: Any, write_all: WriteAll, seen: Seen, start: int = 0
    ) -> Iterator[Chunk]:
        """The new rows of the plan from row `start` on, in order. `seen` holds what was there before."""
        generator = Generator(
            examples,
            plan,
            mixes=self.mixes,
            label_rule=LabelRule(self.labels, self.temperature, teacher),
            drop_duplicates=self.gates.duplicates,
            chunk_size=self.batch_size,
        )
        return generator.chunks(write_all, seen, start)

    def with_progress(self, chunks: Iterable[Chunk], total: int, start: int = 0) -> Iterator[Chunk]:
        """Chunks as they come, with a bar of plan rows done, rows per second and the time left."""
        if not self.progress:
            yield from chunks
            return
        from tqdm import tqdm

        with tqdm(desc=self.engine_name, total=total, initial=start, unit="row", disable=None) as bar:
            for chunk in chunks:
                yield chunk
                bar.update(chunk.stop - chunk.start)

    def writing(self) -> AbstractContextManager[WriteAll]:
        if self.workers == 1:
            return write_here(self._writer)
        if not isinstance(self.method, str) or not isinstance(self.model, str | Path | None):
            raise LindaError("several workers each load the method themselves: give it (and its model) by name")
        return write_in_processes(partial(_make_writer, replace(self, workers=1, teacher=None)), self.workers)

    @property
    def method_name(self) -> str:
        return self.method if isinstance(self.method, str) else self.method.name

    @cached_property
    def engine_name(self) -> str | None:
        """The engine that computes the method's model; None where it has no LINDA model, or is the caller's own."""
        method = augmenters.find(self.method) if isinstance(self.method, str) else None
        choose = getattr(method, "engine_for", None)
        return None if choose is None else choose(self.model, self.engine)

    @property
    def mixes(self) -> bool:
        method = self.method
        return augmenters.find(method).needs_partner if isinstance(method, str) else method.needs_partner

    @cached_property
    def _writer(self) -> Writer:
        method = self.method
        if isinstance(method, str):
            model = {} if self.model is None else {"model": self.model}
            ratio = {"raw": self.raw_ratio} if method == "linda" else {}
            engine = {} if self.engine == "auto" else {"engine": self.engine}
            ways = {} if self.translate is None else dict(zip(("there", "back"), self.translate, strict=True))
            method = augmenters.load(method, **model, **ratio, **engine, **ways)
        return Writer(method, self.gates, self.retries)

    def __getstate__(self) -> dict[str, Any]:
        """Without the loaded model: `datasets.map` takes the state for its cache's name and sends it to processes."""
        return {known.name: getattr(self, known.name) for known in fields(self)}

    def _new_columns(self, examples: Examples, plan: Plan) -> tuple[dict[str, list[Any]], Tally]:
        rows: list[NewRow] = []
        tally = Tally()
        if len(plan):
            plan.check_fits(examples.labels.codes)
            seen = Seen(example for _, example in examples.scan())
            with self.writing() as write_all:
                chunks = self.chunks(examples, plan, self.find_teacher(examples), write_all, seen)
                for chunk in self.with_progress(chunks, len(plan)):
                    rows += chunk.rows
                    tally += chunk.tally
        return new_columns(examples, rows, self.method_name, self.weight), tally


def _make_writer(augmenter: Augmenter) -> Writer:
    return augmenter._writer
