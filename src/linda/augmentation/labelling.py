"""Labels of new rows: interpolated between those of the parents, or predicted by a teacher.

A teacher is fine-tuned on the originals, or trained elsewhere.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from linda.errors import LindaError, shortened
from linda.measures import share_of_first
from linda.model.pretrained import ModelKind, find_device, kind_of_model, load_pretrained
from linda.planning.examples import Example, Examples, Table
from linda.planning.labels import LabelName, Labels, plain, shown
from linda.planning.plan import Plan

if TYPE_CHECKING:
    from linda.augmentation.settings import AugmentationSettings

MODES = ("interpolated", "sharpened", "predicted", "measured", "hard")

_BATCH = 32


@dataclass(frozen=True)
class LabelRule:
    """How new rows are labelled: one of `MODES`."""

    mode: str = "interpolated"
    temperature: float = 0.5
    teacher: Any = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise LindaError(f"unknown labels {self.mode!r}; choose from {', '.join(MODES)}")
        check_temperature(self.temperature)

    def __call__(
        self,
        labels: Labels,
        plan: Plan,
        parents: Sequence[tuple[Example, Example | None]],
        new: Sequence[Example],
    ) -> np.ndarray:
        """Label new rows.

        Args:
            labels: Labels of the originals.
            plan: The plan rows of the new rows.
            parents: The texts of both parents of each new row; the second is None if the method does not mix.
            new: The texts of the new rows.

        Returns:
            Labels (B, C).

        Example:
            LabelRule("hard")(examples.labels, plan[:1], [(("a cat",), ("a dog",))], [("a cat and dog",)])
        """
        if self.mode == "predicted":
            first, *second = (list(column) for column in zip(*new, strict=True))
            return predicted(self.teacher, labels.names, first, *second)
        label = labels.distributions(plan.row)
        if parents[0][1] is not None:
            share = plan.alpha
            if self.mode == "measured":
                share = np.array([_measured_share(*rows, text) for rows, text in zip(parents, new, strict=True)])
            label = interpolated(label, labels.distributions(plan.partner), share)
        if self.mode == "sharpened":
            return sharpened(label, self.temperature)
        return labels.hard(label) if self.mode == "hard" else label


def _measured_share(first: Example, second: Example | None, new: Example) -> float:
    """The share of the first parent in the words of a new row; the mean over both texts of a pair."""
    assert second is not None
    shares = [share_of_first(*texts) for texts in zip(new, first, second, strict=True)]
    return sum(shares) / len(shares)


def interpolated(first: np.ndarray, second: np.ndarray, share: np.ndarray) -> np.ndarray:
    """αyᵃ + (1−α)yᵇ for labels (B, C), (B, C) and shares α (B,)."""
    return share[:, None] * first + (1 - share[:, None]) * second


def sharpened(labels: np.ndarray, temperature: float) -> np.ndarray:
    """yᵢ^(1/T) / Σⱼyⱼ^(1/T) for labels (B, C): T = 1 changes nothing, T → 0 gives the hard label."""
    check_temperature(temperature)
    # Dividing by the maximum first does not change the result, and avoids underflow at low temperatures.
    with np.errstate(under="ignore"):
        powers = (labels / labels.max(axis=1, keepdims=True)) ** (1 / temperature)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def check_temperature(temperature: float) -> None:
    if isinstance(temperature, bool) or not isinstance(temperature, Real) or not 0 < temperature < math.inf:
        raise LindaError(
            f"the temperature is {shortened(temperature)}; it must be above 0 (1 keeps labels as they are)"
        )


def predicted(teacher: Any, names: Sequence[LabelName], texts: list[str], *pairs: list[str]) -> np.ndarray:
    """The teacher's probabilities (B, C), with columns in the order of `names`.

    Args:
        teacher: An object with `predict_proba`: a `TextClassifier`, a scikit-learn pipeline on texts, … Its columns
            are those of its `classes_`, or `names` if it has no such attribute.
        names: Classes of the data.
        texts: Texts to label.
        *pairs: The second texts of a pair task, as one more list.

    Returns:
        Probabilities (B, C).

    Example:
        predicted(teacher, ("no", "yes"), ["Is this good?"])
    """
    scores = np.asarray(teacher.predict_proba(texts, *pairs), dtype=np.float64)
    known = [plain(name) for name in getattr(teacher, "classes_", names)]
    if scores.shape != (len(texts), len(known)):
        raise LindaError(
            f"the teacher returned an array of shape {scores.shape} for {len(texts)} texts and {len(known)} classes"
        )
    column = {name: number for number, name in enumerate(names)}
    unknown = [name for name in known if name not in column]
    if unknown:
        raise LindaError(
            f"the teacher has the class {unknown[0]!r}, which is not in the data ({shown(names)}); "
            "train the teacher on the classes of this data"
        )
    ordered = np.zeros((len(texts), len(names)))
    ordered[:, [column[name] for name in known]] = scores
    return ordered


# --- teachers -------------------------------------------------------------------------------------------------


def find_teacher(examples: Examples, settings: "AugmentationSettings") -> Any:
    """The teacher, loaded or fine-tuned; None if labels are not predicted."""
    if settings.labels != "predicted":
        return None
    if settings.teacher is None:
        return fit_teacher(examples, settings.encoder, seed=settings.seed, progress=settings.progress)
    is_folder = isinstance(settings.teacher, str | Path)
    return load_teacher(settings.teacher, examples.labels.names) if is_folder else settings.teacher


def fit_teacher(examples: Examples, encoder: str | Path | None = None, *, seed: int = 0, progress: bool = False) -> Any:
    """Fine-tune a `TextClassifier` on the originals.

    Args:
        examples: The rows. Their texts are read on demand.
        encoder: Folder or hub name of the encoder to start from; None for all-MiniLM-L6-v2.
        seed: Seed of the fine-tuning.
        progress: Show a progress bar.

    Returns:
        The classifier.

    Example:
        fit_teacher(examples, seed=1).predict_proba(["Who won the race?"])
    """
    from linda.classifier import TextClassifier

    rows = examples.kept
    columns = [_Column(examples.table, column, rows) for column in examples.text_columns]
    known = examples.labels
    labels: Any = known.most_likely(rows) if known.soft is None else known.distributions(rows)
    teacher = TextClassifier(encoder, progress=progress)
    pairs = columns[1] if len(columns) > 1 else None
    return teacher.fit(columns[0], labels, pairs, classes=known.names, seed=seed)


def load_teacher(folder: str | Path, names: Sequence[LabelName]) -> Any:
    """Load a saved `TextClassifier`, or any `transformers` model for sequence classification."""
    from linda.classifier import TextClassifier

    if not Path(folder).is_dir():
        raise LindaError(f"there is no folder {str(folder)!r}; give the folder of a classifier")
    if kind_of_model(folder) == ModelKind.CLASSIFIER:
        return TextClassifier.load(folder)
    return FolderTeacher(folder, names)


class FolderTeacher:
    """A `transformers` classifier with the interface of a teacher: `classes_` and `predict_proba`."""

    def __init__(self, folder: str | Path, names: Sequence[LabelName]) -> None:
        failure = f"the teacher in {str(folder)!r} cannot be loaded"
        self._model, self._tokenizer = load_pretrained("AutoModelForSequenceClassification", folder, failure)
        self._model.eval().to(find_device())
        self.classes_ = _classes(self._model.config.id2label, names)

    def predict_proba(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> np.ndarray:
        """Probabilities (N, C). Texts that exceed the classifier's window are truncated, as in its training."""
        import torch

        columns = [list(texts)] if pairs is None else [list(texts), list(pairs)]
        limit = getattr(self._model.config, "max_position_embeddings", 512)
        answers = []
        for start in range(0, len(texts), _BATCH):
            inputs = self._tokenizer(
                *(column[start : start + _BATCH] for column in columns),
                truncation=True,
                max_length=min(limit, self._tokenizer.model_max_length),
                padding=True,
                return_tensors="pt",
            )
            with torch.inference_mode():
                logits = self._model(**inputs.to(self._model.device)).logits
            answers.append(logits.double().softmax(dim=-1).cpu().numpy())
        return np.concatenate(answers)


def _classes(id2label: dict[int, str], names: Sequence[LabelName]) -> list[LabelName]:
    """The classifier's labels as labels of the data: matched by name, or by number if it has no names."""
    own = [id2label[number] for number in sorted(id2label)]
    by_text = {str(name): name for name in names}
    if set(own) <= set(by_text):
        return [by_text[label] for label in own]
    if own == [f"LABEL_{number}" for number in range(len(names))]:
        return list(names)
    raise LindaError(f"the teacher's classes are {shown(own)}, those of the data {shown(names)}; they must be the same")


class _Column(Sequence[str]):
    """A text column of these rows, each read on demand."""

    def __init__(self, table: Table, column: str, rows: np.ndarray) -> None:
        self._table, self._column, self._rows = table, column, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return self._table.fetch(self._column, [int(self._rows[place])])[0]
