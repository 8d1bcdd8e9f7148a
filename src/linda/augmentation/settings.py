"""What a run makes and how: the settings of `linda.augment`, of `linda.Augmenter` and of `linda augment`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from linda import methods
from linda.augmentation.gates import Gates
from linda.augmentation.label_rules import LabelRule
from linda.errors import (
    MAX_SEED,
    LindaError,
    checked_integer,
    checked_kind,
    checked_number,
    checked_unicode,
    shortened,
)
from linda.methods import AugmentationMethod
from linda.methods.crossover import check_trigrams
from linda.methods.protection import Protected
from linda.planning.balance import Balance, parse_balance
from linda.planning.examples import RECORD, WEIGHT
from linda.planning.labels import LabelName, plain
from linda.planning.plan import MOST_ROWS, PARTNERS, Ratio

if TYPE_CHECKING:
    from linda.interpolation import Interpolator

# Settings that change how a run works, but not its rows. A resumed run may change them.
EXECUTION = ("batch_size", "workers", "progress")


_PATH = (str, Path, NoneType)

# The types of settings that are not checked where they are read, and a description for messages.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "text": ((str,), "the name of a column"),
    "label": ((str,), "the name of a column"),
    "pair": ((str, NoneType), "the name of a column"),
    "ratio": ((str,), "a text, such as uniform, beta:0.4 or 0.2-0.8"),
    "engine": ((str,), "a text: auto, int8 or torch"),
    "translate": ((tuple, list, NoneType), "a pair of models"),
    "trigrams": (_PATH, "a file"),
    "encoder": (_PATH, "a folder"),
    "unlabelled": ((*_PATH, Sequence), "a file or a list of texts"),
    "gates": ((Gates,), "linda.augmentation.gates.Gates"),
    "classes": ((Iterable, NoneType), "a list of classes"),
}


@dataclass(frozen=True)
class AugmentationSettings:
    """Settings of an augmentation run.

    Args:
        text: Text column.
        label: Label column: class names, numbers, booleans or lists of probabilities.
        pair: Second text column of a pair task.
        per_row: New rows per original row.
        total: New rows in total, instead of `per_row`.
        balance: Fill up classes instead: True or "largest" (as many rows as the largest class), 200 (rows per class),
            0.5 (share of the largest class), or {"rare": 300} (rows of some classes).
        partners: Which rows may be mixed with a row: any, same, different, stratified or nearest.
        unlabelled: Unlabelled texts, or a file of them, that are the partners instead; labels must be predicted.
        ratio: Distribution of the mixing ratio: uniform, beta:0.4, a constant (0.5) or a range (0.2-0.8).
        seed: Seed of the plan and the texts.
        method: linda, eda, ssmba, backtranslation, splice, crossover, or an `AugmentationMethod`.
        model: Folder of the method's model, or an `Interpolator`; None for the embedded model.
        engine: Engine that runs a LINDA model given by name: auto, int8 or torch.
        translate: The two models of backtranslation: to the other language, and back.
        trigrams: Trigram table of crossover: a file written by `linda middles table`.
        protect: Words of the parents that a new text must contain: "Paris,New York", a .txt file with one word per
            line, "regex:PATTERN", or a list or set of those. EDA does not change them.
        raw_ratio: Use the ratio as given, without calibration, as in the paper.
        labels: How new rows are labelled: interpolated, sharpened, predicted, measured or hard.
        temperature: Temperature of sharpened labels.
        teacher: Classifier for predicted labels: a folder or an object with `predict_proba`; None to fine-tune one.
        encoder: Encoder that the teacher is fine-tuned from and that finds nearest partners.
        multi_label: Rows have several labels: lists of class names, or vectors with one value from 0 to 1 per class.
        classes: All classes, if the data may not contain every one.
        weight: Training weight of new rows (originals: 1). A value other than 1 adds the column `weight`.
        gates: The filters for new texts.
        retries: How often a rejected text is written again, by sampling.
        skip_empty: Skip rows without text instead of raising an error.
        only_new: Return the new rows without the originals.
        batch_size: Rows per batch; does not affect the rows.
        workers: Worker processes; does not affect results.
        progress: Show a progress bar and a summary.

    Example:
        AugmentationSettings(per_row=2, partners="any", labels="sharpened", seed=7)
    """

    text: str = "text"
    label: str = "label"
    pair: str | None = None
    per_row: int = 1
    total: int | None = None
    balance: Balance | None = None
    partners: str = "same"
    unlabelled: str | Path | Sequence[str] | None = None
    ratio: str = "uniform"
    seed: int = 0
    method: str | AugmentationMethod = "linda"
    model: "str | Path | Interpolator | None" = None
    engine: str = "auto"
    translate: tuple[str, str] | None = None
    trigrams: str | Path | None = None
    protect: str | Iterable[str] = ()
    raw_ratio: bool = False
    labels: str = "interpolated"
    temperature: float = 0.5
    teacher: Any = None
    encoder: str | Path | None = None
    multi_label: bool = False
    classes: Sequence[LabelName] | None = None
    weight: float = 1.0
    gates: Gates = field(default_factory=Gates)
    retries: int = 2
    skip_empty: bool = False
    only_new: bool = False
    batch_size: int = 128
    workers: int = 1
    progress: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.ratio, int | float) and not isinstance(self.ratio, bool):
            object.__setattr__(self, "ratio", str(self.ratio))  # a constant
        for name, (kinds, wanted) in _KINDS.items():
            checked_kind(getattr(self, name), name, kinds, wanted)
        for name in ("model", "trigrams", "teacher", "encoder"):  # their names are written to the folder of a run
            if isinstance(getattr(self, name), str | Path):
                checked_unicode(str(getattr(self, name)), name)
        Ratio.parse(self.ratio)  # checks it
        LabelRule(self.labels, self.temperature)  # checks both
        if self.partners not in PARTNERS:
            raise LindaError(f"unknown partners {self.partners!r}; choose from {', '.join(PARTNERS)}")
        if self.balance is not None:
            parse_balance(self.balance)  # checks it
            if self.per_row != 1 or self.total is not None:
                raise LindaError("balance determines the number of new rows; leave out per_row and total")
        if self.multi_label:
            self._check_multi_label()
        if self.unlabelled is not None:
            self._check_unlabelled()
        _ = self.protected  # checks it
        if not isinstance(self.protect, str | list | tuple):  # a run is stored as JSON, and a set has no order
            object.__setattr__(self, "protect", sorted(self.protect))
        if not checked_number(self.weight, "weight", 0) > 0:
            raise LindaError("weight is 0; it must be above 0")
        if isinstance(self.method, type) or not isinstance(self.method, str | AugmentationMethod):
            raise LindaError(f"method is {self.method!r}; give a name or a linda.methods.AugmentationMethod")
        if (self.method == "backtranslation") != (self.translate is not None):
            raise LindaError(
                "backtranslation needs two translation models (translate=(there, back), --translate THERE BACK); "
                "other methods take none"
            )
        if self.translate is not None and (
            len(self.translate) != 2 or not all(isinstance(model, str | Path) for model in self.translate)
        ):
            raise LindaError(f"translate is {shortened(self.translate)}; give two models: (there, back)")
        check_trigrams({self.method} if isinstance(self.method, str) else set(), self.trigrams)
        for name, least, most in (("batch_size", 1, 10**6), ("workers", 1, 256), ("retries", 0, 1000)):
            checked_integer(getattr(self, name), name, least, most)
        # A run is stored as JSON, which has neither numpy numbers nor ranges.
        object.__setattr__(self, "seed", checked_integer(self.seed, "seed", 0, MAX_SEED))
        for name in ("per_row", "total"):
            if name == "per_row" or self.total is not None:
                object.__setattr__(self, name, checked_integer(getattr(self, name), name, 1, MOST_ROWS))
        if self.classes is not None:
            object.__setattr__(self, "classes", [plain(name) for name in self.classes])

    def _check_multi_label(self) -> None:
        if self.balance is not None:
            raise LindaError("balance needs one label per row; it cannot be combined with multi_label")
        if self.labels == "sharpened":
            raise LindaError("sharpened labels are distributions; with multi_label, use interpolated or hard ones")
        if self.labels == "predicted" and not hasattr(self.teacher, "predict_proba"):
            raise LindaError("with multi_label, predicted labels need a teacher object with predict_proba (in Python)")

    def _check_unlabelled(self) -> None:
        if self.labels != "predicted":
            raise LindaError(
                "texts mixed with unlabelled ones need labels from a teacher (labels='predicted', --labels predicted)"
            )
        if not self.mixes:
            raise LindaError(f"{self.method_name} does not mix texts, so it needs no unlabelled ones")
        if self.pair is not None or self.balance is not None:
            raise LindaError("unlabelled texts cannot be combined with pair or balance")

    @property
    def text_columns(self) -> list[str]:
        """The text column, or both text columns of a pair task."""
        return [self.text] if self.pair is None else [self.text, self.pair]

    @property
    def added_columns(self) -> dict[str, pa.DataType]:
        """The columns that every row gets in addition to those of the data, in order."""
        return RECORD if self.weight == 1 else RECORD | WEIGHT

    @property
    def method_name(self) -> str:
        """The name of the method."""
        return self.method if isinstance(self.method, str) else self.method.name

    @property
    def mixes(self) -> bool:
        """Whether the method mixes two texts."""
        return (methods.find(self.method) if isinstance(self.method, str) else self.method).needs_partner

    @property
    def drawing(self) -> dict[str, Any]:
        """How rows and ratios are drawn: arguments of `make_plan` and `BalancedPlanner`."""
        return {"partners": self.partners if self.mixes else None, "ratio": self.ratio, "seed": self.seed}

    @cached_property
    def protected(self) -> Protected:
        """The parsed value of `protect`."""
        return Protected.parse(self.protect)

    @cached_property
    def engine_name(self) -> str | None:
        """The engine that runs the method's LINDA model; None if there is no such model or the caller loaded it."""
        return methods.find(self.method).engine_for(self.model, self.engine) if isinstance(self.method, str) else None

    def load_method(self) -> AugmentationMethod:
        """Load the method with its model."""
        if not isinstance(self.method, str):
            return self.method
        given = {
            "model": self.model,
            "raw": self.raw_ratio if self.method == "linda" else None,
            "engine": None if self.engine == "auto" else self.engine,
            "trigrams": self.trigrams,
            "protected": self.protected if self.method == "eda" else None,
            **dict(zip(("there", "back"), self.translate or (), strict=False)),
        }
        return methods.load(self.method, **{name: value for name, value in given.items() if value is not None})

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: `datasets.map` hashes and sends this state, and must not include a loaded model."""
        return {known.name: getattr(self, known.name) for known in fields(self)}
