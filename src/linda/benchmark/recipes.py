"""Methods by name: which new rows they make, and how the student is trained.

vanilla   eda   linda   class-weights   oversample   smote   label-smoothing   temperature   …
linda+partners=same+weight=0.5        the same method with other settings of `Policy` or `Training`
linda+balance                         a boolean setting needs no value
eda&linda+per_row=2                   new rows of both methods, an equal share of `per_row` each
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, get_type_hints

from linda import methods
from linda.augmentation.label_rules import MODES, check_temperature
from linda.augmentation.settings import AugmentationSettings
from linda.classifier.students import StudentKind
from linda.errors import LindaError
from linda.planning.plan import PARTNERS, Ratio

VANILLA = "vanilla"
PSEUDO_LABEL = "pseudo-label"  # unlabelled rows, labelled by the teacher
OVERSAMPLE = "oversample"  # copies of rows of rare classes
UNLABELLED = "unlabelled"  # partners that are unlabelled rows

_JOIN = "&"

_MIXUP_BETA = 1.0  # λ ~ Beta(1, 1) is uniform, as in Guo et al. 2019
_SMOOTHING = 0.1


@dataclass(frozen=True)
class Policy:
    """How new rows are made. All but the last three are settings of `linda augment`, with its defaults."""

    partners: str = AugmentationSettings.partners
    ratio: str = AugmentationSettings.ratio
    raw_ratio: bool = AugmentationSettings.raw_ratio
    labels: str = AugmentationSettings.labels
    temperature: float = AugmentationSettings.temperature
    per_row: int = AugmentationSettings.per_row
    gates: bool = True
    weight: float = AugmentationSettings.weight
    keep: float = 0.0  # drop new rows whose label overlaps less than this with the teacher's prediction
    balance: bool = False  # fill every class up to the largest, instead of `per_row` new rows for each row
    pseudo_rows: int = 0  # for each row, add this many unlabelled rows with the teacher's label, and augment these too

    def __post_init__(self) -> None:
        for name, known in (("partners", (*PARTNERS, UNLABELLED)), ("labels", MODES)):
            if getattr(self, name) not in known:
                raise LindaError(f"unknown {name} {getattr(self, name)!r}; choose from {', '.join(known)}")
        Ratio.parse(self.ratio)
        check_temperature(self.temperature)
        if self.per_row < 1 or not 0 < self.weight < math.inf or not 0 <= self.keep <= 1 or self.pseudo_rows < 0:
            raise LindaError(
                "per_row must be at least 1, weight above 0, keep between 0 and 1 and pseudo_rows 0 or more; "
                f"got {self.per_row}, {self.weight:g}, {self.keep:g} and {self.pseudo_rows}"
            )
        if self.pseudo_rows and self.partners == UNLABELLED:
            raise LindaError(
                "pseudo_rows and partners=unlabelled exclude each other: with pseudo_rows, any row can be a partner"
            )


@dataclass(frozen=True)
class Training:
    """How the student is trained and its probabilities are used."""

    mixup: float = 0.0  # Beta parameter of mixup between sentence vectors; 0: none
    smoothing: float = 0.0  # share of the label that is distributed over all classes
    class_weights: bool = False  # every class has the same total weight
    smote: bool = False  # synthetic vectors for rare classes
    scaled: bool = False  # temperature scaling on held-out folds
    early_stopping: bool = False  # the number of updates with the lowest log loss on held-out folds

    def __post_init__(self) -> None:
        if not 0 <= self.mixup < math.inf or not 0 <= self.smoothing < 1:
            raise LindaError(
                f"mixup must be 0 or more and smoothing from 0 to below 1; got {self.mixup:g} and {self.smoothing:g}"
            )

    @property
    def needs_folds(self) -> bool:
        return self.scaled or self.early_stopping


# Settings that apply only to methods that mix two texts.
_MIXING_ONLY = ("partners", "ratio", "raw_ratio", "temperature")


@dataclass(frozen=True)
class Recipe:
    """A method with its settings.

    Attributes:
        name: As given on the command line.
        source: Where new rows come from: an augmentation method, PSEUDO_LABEL, OVERSAMPLE, or None.
        policy: How new rows are made.
        training: How the student is trained.
        parts: The methods that are joined, if there are several. Each makes rows by its own policy.
    """

    name: str
    source: str | None = None
    policy: Policy = field(default_factory=Policy)
    training: Training = field(default_factory=Training)
    parts: tuple[Recipe, ...] = ()

    @property
    def sources(self) -> list[str | None]:
        return [part.source for part in self.parts or (self,)]

    @property
    def augments(self) -> bool:
        """Whether an augmentation method makes new texts."""
        return self.source not in (None, PSEUDO_LABEL, OVERSAMPLE)

    @property
    def mixes(self) -> bool:
        return self.augments and any(methods.find(str(source)).needs_partner for source in self.sources)

    @property
    def needs_same_label(self) -> bool:
        """Whether a row needs another of its label as a partner."""
        return any(part.mixes and part.policy.partners == "same" for part in self.parts or (self,))

    @property
    def uses_unlabelled(self) -> bool:
        if self.parts:
            return any(part.uses_unlabelled for part in self.parts)
        if self.source == PSEUDO_LABEL:
            return True
        return self.augments and (self.policy.pseudo_rows > 0 or (self.mixes and self.policy.partners == UNLABELLED))

    @property
    def uses_teacher(self) -> bool:
        if self.parts:
            return any(part.uses_teacher for part in self.parts)
        return self.uses_unlabelled or (self.augments and (self.policy.labels == "predicted" or self.policy.keep > 0))

    def record(self) -> dict[str, Any] | None:
        """Return the settings that affect this method's result; None if it has none."""
        training = {name: value for name, value in asdict(self.training).items() if value}
        if self.source is None:
            return training or None
        if self.parts:
            of_parts = ((part, name, value) for part in self.parts for name, value in (part.record() or {}).items())
            return {f"{part.name} {name}": value for part, name, value in of_parts} | training
        known = policy_settings(self)
        return {name: value for name, value in asdict(self.policy).items() if name in known} | training

    def check_student(self, student: StudentKind, folds: int) -> None:
        """Raise a LindaError if the student cannot be trained this way."""
        if self.training.mixup and not student.mixes_vectors:
            raise LindaError(
                f"{self.name} mixes vectors inside the minibatches of fine-tuning; the student {student.name} has none "
                "(use --student finetune, or leave it out)"
            )
        if self.training.smote and not student.has_vectors:
            raise LindaError(
                f"{self.name} needs the student's vectors before training; {student.name} has none "
                "(use --student probe, setfit or tfidf, or leave it out)"
            )
        if self.training.early_stopping and not student.uses_learning_rate:
            raise LindaError(
                f"{self.name} stops fine-tuning early; the student {student.name} is trained otherwise "
                "(use --student finetune, or leave it out)"
            )
        if self.training.needs_folds and not folds:
            raise LindaError(f"{self.name} is fitted on held-out folds of the training rows; give --folds 3")

    def check_multi_label(self) -> None:
        """Raise a LindaError if the method needs rows with one label each."""
        for part in self.parts:
            part.check_multi_label()
        policy = self.policy if self.source is not None else Policy()
        needs_one = {
            self.name: self.source in (OVERSAMPLE, PSEUDO_LABEL),
            "balance": policy.balance,
            "keep": policy.keep > 0,
            "pseudo_rows" if policy.pseudo_rows else "partners=unlabelled": self.uses_unlabelled,
            "labels=sharpened": self.augments and policy.labels == "sharpened",
            **{name: bool(value) for name, value in asdict(self.training).items() if name != "mixup"},
        }
        found = next((what for what, applies in needs_one.items() if applies), None)
        if found is not None:
            raise LindaError(
                f"{self.name} cannot be used with --multi-label, because {found} needs one label per row; use vanilla, "
                "mixup or a method that writes texts, such as eda, splice or linda"
            )


def policy_settings(recipe: Recipe) -> tuple[str, ...]:
    """Return the names of the policy settings that have an effect."""
    if recipe.source == PSEUDO_LABEL:
        return "per_row", "weight"
    if recipe.source == OVERSAMPLE:
        return ("weight",)
    idle = set() if recipe.mixes else set(_MIXING_ONLY)
    if recipe.source != "linda":
        idle.add("raw_ratio")  # no other method has a calibrated ratio
    return tuple(name for name in get_type_hints(Policy) if name not in idle)


# A baseline makes one new row for each row, with the label of its parent.
_BASELINE = Policy(labels="interpolated", per_row=1, weight=1.0)

# Appendix C: the paper's partners, ratios and labels. The paper filters nothing: every row is kept, copies included.
_PAPER = Policy(
    "any", "uniform", raw_ratio=True, labels="interpolated", temperature=0.5, per_row=1, gates=False, weight=1.0
)
# The same with our ratio and gates; the labels `measured` are our own.
_CALIBRATED = replace(_PAPER, raw_ratio=False, gates=True)

# The paper's baselines that make new rows. As published they filter nothing either.
_PUBLISHED = ("eda", "ssmba", "ssmba-soft")

_RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(VANILLA),
        Recipe("class-weights", training=Training(class_weights=True)),
        Recipe(OVERSAMPLE, OVERSAMPLE, _BASELINE),
        Recipe("smote", training=Training(smote=True)),
        Recipe("label-smoothing", training=Training(smoothing=_SMOOTHING)),
        Recipe("temperature", training=Training(scaled=True)),
        Recipe("early-stopping", training=Training(early_stopping=True)),
        Recipe(PSEUDO_LABEL, PSEUDO_LABEL, _BASELINE),
        Recipe("eda", "eda", _BASELINE),
        Recipe("ssmba", "ssmba", _BASELINE),
        Recipe("ssmba-soft", "ssmba", replace(_BASELINE, labels="predicted")),
        Recipe("mixup", training=Training(mixup=_MIXUP_BETA)),
        Recipe("backtranslation", "backtranslation", _BASELINE),
        Recipe("linda", "linda"),
        Recipe("linda-raw", "linda", _PAPER),
        Recipe("linda-raw-sharpened", "linda", replace(_PAPER, labels="sharpened")),
        Recipe("linda-raw-predicted", "linda", replace(_PAPER, labels="predicted")),
        Recipe("linda-interpolated", "linda", _CALIBRATED),
        Recipe("linda-sharpened", "linda", replace(_CALIBRATED, labels="sharpened")),
        Recipe("linda-predicted", "linda", replace(_CALIBRATED, labels="predicted")),
        Recipe("linda-measured", "linda", replace(_CALIBRATED, labels="measured")),
    )
}


def recipe_names() -> list[str]:
    """Return the names of all methods: those above, and every other augmentation method."""
    return [*_RECIPES, *(name for name in methods.names() if name not in _RECIPES)]


def parse_recipe(text: str, as_published: bool = False) -> Recipe:
    """Parse a method: `linda`, `linda+balance`, `linda+partners=same+weight=0.5`, `eda&linda+per_row=2`.

    as_published: the paper's baselines keep every row, unless `gates` is set.
    """
    names, *settings = text.split("+")
    recipes = [_named(name, as_published) for name in names.split(_JOIN)]
    changes = dict(_parse_setting(setting, text) for setting in settings)
    of_policy = {setting: value for setting, value in changes.items() if setting in get_type_hints(Policy)}
    of_training = {setting: value for setting, value in changes.items() if setting not in of_policy}
    first = recipes[0]
    if of_policy and first.source is None:
        raise LindaError(f"{text!r}: {next(iter(of_policy))} has no effect, because {first.name} makes no new rows")
    for setting in of_policy:
        if not any(setting in policy_settings(recipe) for recipe in recipes):
            raise LindaError(f"{text!r}: {setting} has no effect, because {first.name} {_reason(first)}")
    changed = [_with_policy(text, recipe, of_policy) for recipe in recipes]
    training = replace(first.training, **of_training)
    if len(changed) == 1:
        return replace(changed[0], name=text, training=training)
    return _joined(text, changed, training)


def _named(name: str, as_published: bool) -> Recipe:
    """Return the method of this name, with its own settings."""
    if name not in recipe_names():
        raise LindaError(f"unknown method {name!r}; choose from {', '.join(recipe_names())}")
    recipe = _RECIPES.get(name) or Recipe(name, name, Policy() if methods.find(name).needs_partner else _BASELINE)
    if as_published and name in _PUBLISHED:
        return replace(recipe, policy=replace(recipe.policy, gates=False))
    return recipe


def _with_policy(text: str, recipe: Recipe, given: dict[str, Any]) -> Recipe:
    """Change those settings that the method has. A setting that another one makes useless is an error."""
    known = {name: value for name, value in given.items() if name in policy_settings(recipe)}
    policy = replace(recipe.policy, **known)
    if "per_row" in known and policy.balance:
        raise LindaError(f"{text!r}: per_row has no effect, because balance decides the number of new rows")
    if "temperature" in known and policy.labels != "sharpened":
        raise LindaError(f"{text!r}: temperature has no effect, because only labels=sharpened use it")
    return replace(recipe, policy=policy)


def _joined(text: str, recipes: list[Recipe], training: Training) -> Recipe:
    """Join methods that make new texts; each makes an equal part of `per_row`."""
    names = [recipe.name for recipe in recipes]
    for recipe in recipes:
        if not recipe.augments:
            raise LindaError(f"{text!r}: {recipe.name} makes no new texts; join methods that do, such as eda&linda")
        if recipe.policy.balance:
            raise LindaError(f"{text!r}: balance determines the number of rows of one method; do not join it with &")
        if recipe.policy.per_row % len(recipes):
            raise LindaError(
                f"{text!r}: {len(recipes)} methods cannot each make an equal part of per_row={recipe.policy.per_row}; "
                f"give per_row={len(recipes)} or a multiple"
            )
    if len(set(names)) < len(names):
        raise LindaError(f"{text!r}: a method is named twice; join different ones")
    parts = tuple(
        replace(recipe, policy=replace(recipe.policy, per_row=recipe.policy.per_row // len(recipes)))
        for recipe in recipes
    )
    return Recipe(text, _JOIN.join(names), recipes[0].policy, training, parts)


def _reason(recipe: Recipe) -> str:
    """Say why a setting of new rows has no effect on a method."""
    if not recipe.augments:
        return "makes no new texts"
    return "has no calibrated ratio" if recipe.mixes else "does not mix texts"


def _parse_setting(setting: str, text: str) -> tuple[str, Any]:
    types = {**get_type_hints(Policy), **get_type_hints(Training)}
    name, sign, value = setting.partition("=")
    if name not in types:
        raise LindaError(f"{text!r}: unknown setting {name!r}; choose from {', '.join(types)}")
    kind = types[name]
    if kind is bool and not sign:
        return name, True
    try:
        return name, {"true": True, "false": False}[value] if kind is bool else kind(value)
    except (KeyError, ValueError):
        wanted = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise LindaError(f"{text!r}: {name} cannot be {value!r}; give {wanted}") from None
