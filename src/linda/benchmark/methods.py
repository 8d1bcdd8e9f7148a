"""What is done to the training rows: each method by its name, and how it is to be used.

vanilla   eda   ssmba   ssmba-soft   mixup   backtranslation   linda   linda-raw …
linda+partners=same+weight=0.5        the same method with other settings of `Policy`
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from linda import methods as augmenters
from linda.augmentation import Augmenter
from linda.augmentation.gates import Gates
from linda.augmentation.labels import MODES, LabelName, check_temperature
from linda.augmentation.plan import PARTNERS, Ratio
from linda.benchmark.tasks import Rows
from linda.classifier import TextClassifier
from linda.config import LindaConfig
from linda.errors import LindaError
from linda.files.paths import checked_path
from linda.interpolation import Interpolator
from linda.model.checkpoint import CONFIG_FILE, EMBEDDED

# λ ~ Beta(1, 1): uniform, as Guo et al. 2019.
_MIXUP_BETA = 1.0


@dataclass(frozen=True)
class Policy:
    """How new rows are made and used, by default as `linda augment` does; only `keep` it does not know."""

    partners: str = Augmenter.partners
    ratio: str = Augmenter.ratio
    raw_ratio: bool = Augmenter.raw_ratio
    labels: str = Augmenter.labels
    temperature: float = Augmenter.temperature
    per_row: int = Augmenter.per_row
    gates: bool = True
    weight: float = Augmenter.weight
    keep: float = 0.0  # new rows are left out where label and teacher share less than this

    def __post_init__(self) -> None:
        for name, known in (("partners", PARTNERS), ("labels", MODES)):
            if getattr(self, name) not in known:
                raise LindaError(f"{name} are {', '.join(known)}; got {getattr(self, name)!r}")
        Ratio.parse(self.ratio)
        check_temperature(self.temperature)
        if self.per_row < 1 or not 0 < self.weight < math.inf or not 0 <= self.keep <= 1:
            raise LindaError(
                "per_row must be at least 1, weight above 0 and keep between 0 and 1; "
                f"got {self.per_row}, {self.weight:g} and {self.keep:g}"
            )


# What methods that change one text at a time do not know.
_MIXING_ONLY = ("partners", "ratio", "raw_ratio", "temperature")


@dataclass(frozen=True)
class Method:
    """name: as asked for. augmenter: None for methods that make no new texts."""

    name: str
    augmenter: str | None = None
    policy: Policy = field(default_factory=Policy)
    mixup: float | None = None

    def record(self) -> dict[str, Any] | None:
        """The settings that decide this method's rows."""
        if self.augmenter is None:
            return None
        settings = asdict(self.policy)
        return settings if self.augmenter == "linda" else {k: v for k, v in settings.items() if k not in _MIXING_ONLY}


# A baseline's own way: one new row for each row, with its parent's label.
_BASELINE = Policy(labels="interpolated", per_row=1, weight=1.0)

# Appendix C: the paper's partners, ratios and labels; `measured` is our own.
_PAPER = Policy("any", "uniform", raw_ratio=True, labels="interpolated", temperature=0.5, per_row=1, weight=1.0)
_CALIBRATED = replace(_PAPER, raw_ratio=False)

_METHODS = {
    method.name: method
    for method in (
        Method("vanilla"),
        Method("eda", "eda", _BASELINE),
        Method("ssmba", "ssmba", _BASELINE),
        Method("ssmba-soft", "ssmba", replace(_BASELINE, labels="predicted")),
        Method("mixup", mixup=_MIXUP_BETA),
        Method("backtranslation", "backtranslation", _BASELINE),
        Method("linda", "linda"),
        Method("linda-raw", "linda", _PAPER),
        Method("linda-raw-sharpened", "linda", replace(_PAPER, labels="sharpened")),
        Method("linda-raw-predicted", "linda", replace(_PAPER, labels="predicted")),
        Method("linda-interpolated", "linda", _CALIBRATED),
        Method("linda-sharpened", "linda", replace(_CALIBRATED, labels="sharpened")),
        Method("linda-predicted", "linda", replace(_CALIBRATED, labels="predicted")),
        Method("linda-measured", "linda", replace(_CALIBRATED, labels="measured")),
    )
}


def method_names() -> list[str]:
    return list(_METHODS)


def parse_method(text: str) -> Method:
    """`linda`, or `linda+partners=same+weight=0.5`."""
    name, *settings = text.split("+")
    if name not in _METHODS:
        raise LindaError(f"there is no method {name!r}; known are {', '.join(_METHODS)}")
    method = _METHODS[name]
    if settings and method.augmenter is None:
        raise LindaError(f"{text!r}: {name} makes no new rows and has no settings")
    changes = dict(_parse_setting(setting, text) for setting in settings)
    if method.augmenter != "linda":
        foreign = [setting for setting in changes if setting in _MIXING_ONLY]
        if foreign:
            raise LindaError(f"{text!r}: {name} mixes no two texts and has no {foreign[0]}")
    return replace(method, name=text, policy=replace(method.policy, **changes))


def _parse_setting(setting: str, text: str) -> tuple[str, Any]:
    types = get_type_hints(Policy)
    name, _, value = setting.partition("=")
    if name not in types:
        raise LindaError(f"{text!r}: there is no setting {name!r}; known are {', '.join(types)}")
    kind = types[name]
    try:
        return name, {"true": True, "false": False}[value] if kind is bool else kind(value)
    except (KeyError, ValueError):
        raise LindaError(f"{text!r}: {name} cannot be {value!r}; give {_wanted(kind)}") from None


def _wanted(kind: type) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number"}[kind]


@dataclass(frozen=True)
class Models:
    """The models that methods need, as folders or hub names. None: what is embedded, or nothing."""

    linda: str | None = None
    masked: str | None = None  # of SSMBA; None: the LINDA model
    there: str | None = None  # of back-translation
    back: str | None = None
    engine: str = "auto"  # that computes the LINDA model

    def check(self, methods: list[Method]) -> None:
        """Before anything is computed: each method has what it needs."""
        if any(method.augmenter == "backtranslation" for method in methods) and not (self.there and self.back):
            raise LindaError(
                "backtranslation needs two translation models: give --translate THERE BACK, or leave it out"
            )
        for model in (self.masked, self.there, self.back):
            if model is not None:
                check_model(model)
        if not any(map(self.use_linda, methods)):
            return
        if self.linda is None and not EMBEDDED.is_dir():
            raise LindaError(
                "this installation has no embedded model; give the folder of a LINDA model (--model FOLDER)"
            )
        if self.linda is not None and Path(self.linda).is_dir():
            LindaConfig.from_json(Path(self.linda) / CONFIG_FILE)  # complains where it is no LINDA model

    def use_linda(self, method: Method) -> bool:
        return method.augmenter == "linda" or (method.augmenter == "ssmba" and self.masked is None)


def check_model(model: str) -> None:
    """A folder must hold a model; any other name is taken for one of the hub, unless it can only be a path."""
    checked_path(model)
    if not model.isprintable() and not Path(model).is_dir():
        raise LindaError(f"there is no folder {model!r} with a model")
    is_path = Path(model).is_absolute() or model.startswith((".", "~")) or model.count("/") > 1
    if is_path and not Path(model).is_dir():
        raise LindaError(f"there is no folder {model!r} with a model")
    if Path(model).is_dir() and not (Path(model) / CONFIG_FILE).is_file():
        raise LindaError(f"the folder {model!r} holds no model: it has no {CONFIG_FILE}")


@dataclass(frozen=True)
class NewRows:
    """Rows to train on beside the originals."""

    texts: list[str]
    pairs: list[str] | None
    labels: np.ndarray  # (N, C)
    weight: float

    def __len__(self) -> int:
        return len(self.texts)


def make_new_rows(
    method: Method,
    rows: Rows,
    classes: list[LabelName],
    models: Models,
    encoder: str | Path | None,
    fit_teacher: Callable[[], TextClassifier],
    seed: int,
) -> NewRows:
    """The rows that a method makes from training rows; none for methods that make no texts."""
    policy = method.policy
    if method.augmenter is None:
        return NewRows([], None if rows.pairs is None else [], np.zeros((0, len(classes))), policy.weight)
    teacher = fit_teacher() if policy.labels == "predicted" or policy.keep > 0 else None
    gates = Gates() if policy.gates else Gates(**dict.fromkeys(Gates.names(), False))
    augmenter = Augmenter(
        pair=None if rows.pairs is None else "pair",
        method=_load(method.augmenter, models, policy.raw_ratio),
        per_row=policy.per_row,
        partners=policy.partners,
        ratio=policy.ratio,
        labels=policy.labels,
        temperature=policy.temperature,
        teacher=teacher,
        encoder=encoder,
        classes=classes,
        weight=policy.weight,
        gates=gates,
        seed=seed,
        only_new=True,
    )
    data: dict[str, list[Any]] = {"text": rows.texts, "label": rows.labels}
    if rows.pairs is not None:
        data["pair"] = rows.pairs
    made = augmenter.augment(data)
    labels = np.array([row["label_probs"] for row in made]).reshape(len(made), len(classes))
    texts = [row["text"] for row in made]
    pairs = None if rows.pairs is None else [row["pair"] for row in made]
    new = NewRows(texts, pairs, labels, policy.weight)
    return new if teacher is None else _agreed(new, teacher, policy.keep)


def _agreed(new: NewRows, teacher: TextClassifier, keep: float) -> NewRows:
    """The rows whose label and the teacher's prediction share at least `keep`: Σᵢ min(yᵢ, pᵢ)."""
    if keep == 0 or not len(new):
        return new
    shared = np.minimum(new.labels, teacher.predict_proba(new.texts, new.pairs)).sum(axis=1)
    kept = np.flatnonzero(shared >= keep)
    pairs = None if new.pairs is None else [new.pairs[row] for row in kept]
    return NewRows([new.texts[row] for row in kept], pairs, new.labels[kept], new.weight)


@lru_cache(maxsize=4)
def _load(name: str, models: Models, raw: bool) -> augmenters.AugmentationMethod:
    """Loaded once for all cells of a process."""
    if name == "linda":
        return augmenters.load(name, model=_interpolator(models.linda, models.engine), raw=raw)
    if name == "ssmba":
        return augmenters.load(name, model=models.masked or _interpolator(models.linda, models.engine))
    if name == "backtranslation":
        return augmenters.load(name, there=models.there, back=models.back)
    return augmenters.load(name)


@lru_cache(maxsize=1)
def _interpolator(model: str | None, engine: str) -> Interpolator:
    """One copy in memory, for all methods that use it."""
    return Interpolator.from_pretrained(model, engine=engine)
